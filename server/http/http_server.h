// The operator's HTTP port: a handful of fixed pages (/metrics, /healthz, ...), GET and HEAD only,
// on civetweb. Nothing on the file system is ever served and no request body is ever read.
//
// Owner: the composition root. Route(), Start() and Stop() are called by one thread; Stop() joins
// every thread and is also what the destructor does, so that handlers may use whatever outlives the
// server. Handlers run on the server's own threads, several at once, and must not block for long: a
// few of them waiting hold up every other page.
//
// Limits: a request's line and headers are at most request_bytes_max long and must be there within
// request_timeout_ms; a client that does not take its reply for that long is dropped. Connections
// beyond the threads wait in a short queue, then in the kernel's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "engine/base/result.h"

struct mg_context;
struct mg_connection;

namespace dovetail::server {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpServerOptions {
  // An address or host name, IPv6 without brackets.
  std::string bind_address = "0.0.0.0";
  // 0 takes a free port.
  int64_t port = 0;
  int threads = 16;
  int64_t request_timeout_ms = 1'000;
  int64_t request_bytes_max = 8'192;
};

class HttpServer {
 public:
  using Handler = std::function<HttpReply()>;

  HttpServer() = default;
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Before Start(). The path is matched as a whole, undecoded and without the query; doubled
  // slashes and dot segments are folded before.
  void Route(const std::string& path, Handler handler);

  // busy: someone else has the port. invalid: the address or port cannot be listened on.
  // unsupported: an IPv6 address, and the installed civetweb was built without IPv6.
  // os_error is the errno where there is one; start_failure() has the text for the operator.
  Status Start(const HttpServerOptions& options);
  const std::string& start_failure() const { return start_failure_; }

  // The port that is listened on; 0 unless started.
  int port() const { return port_; }

  // Ends the listening, waits for requests in work (at most some seconds when a client is slow).
  void Stop();

 private:
  static int OnRequest(mg_connection* connection);
  int Answer(mg_connection* connection) const;
  Status CheckOptions(const HttpServerOptions& options);
  Status FailedStart(ErrorCode code, int os_error, std::string text);

  std::map<std::string, Handler, std::less<>> routes_;
  std::string start_failure_;
  std::string bind_address_;
  mg_context* context_ = nullptr;
  int port_ = 0;
};

}  // namespace dovetail::server
