#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/check.h"

namespace dovetail::server {
namespace {

// While a start is under way on this thread: where the library's complaints go. They are dropped at
// any other time, because clients can provoke them at will.
thread_local std::string* start_complaints = nullptr;

int OnLogMessage(const mg_connection*, const char* message) {
  if (start_complaints != nullptr && message != nullptr) {
    if (!start_complaints->empty()) start_complaints->append("; ");
    start_complaints->append(message);
  }
  return 1;
}

int OnLogAccess(const mg_connection*, const char*) { return 1; }

// The library takes a list in a little language of its own; an address must not add to it.
bool IsPlainAddress(std::string_view address) {
  return !address.empty() && std::ranges::all_of(address, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == ':' || c == '-' || c == '%' || c == '_';
  });
}

bool IsIpv6(std::string_view address) { return address.find(':') != std::string_view::npos; }

void Send(mg_connection* connection, std::string_view method, const HttpReply& reply,
          std::string_view extra_header = "") {
  std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n{}\r\n",
      reply.status, mg_get_response_code_text(connection, reply.status), reply.content_type,
      reply.body.size(), extra_header);
  if (method != "HEAD") text += reply.body;
  // A client that is gone or does not read is the library's to drop; there is nobody left to tell.
  (void)mg_write(connection, text.data(), text.size());
}

// The library looks for new connections in naps of two seconds and sees only between them that it
// is to stop. While one of these lives, it is woken by connections that say nothing.
class Waker {
 public:
  Waker(const std::string& bind_address, int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    // For anything but a plain IPv4 address the nap is simply waited for; 0.0.0.0 reaches loopback.
    if (inet_pton(AF_INET, bind_address.c_str(), &address.sin_addr) != 1) return;
    try {
      thread_.emplace([address](const std::stop_token& stop) { Run(stop, address); });
    } catch (const std::system_error&) {
      // No thread to be had: then the nap is waited for as well.
    }
  }

 private:
  static void Run(const std::stop_token& stop, const sockaddr_in& address) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    while (!stopped.wait_for(lock, stop, std::chrono::milliseconds(10), [] { return false; }) &&
           !stop.stop_requested()) {
      const int knock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      if (knock < 0) continue;
      (void)connect(knock, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
      close(knock);
    }
  }

  std::optional<std::jthread> thread_;
};

}  // namespace

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Route(const std::string& path, Handler handler) {
  DOVETAIL_CHECK(context_ == nullptr);
  DOVETAIL_CHECK(path.starts_with('/') && handler != nullptr);
  routes_[path] = std::move(handler);
}

Status HttpServer::FailedStart(ErrorCode code, int os_error, std::string text) {
  start_failure_ = std::move(text);
  return Fail(code, "http_start", os_error);
}

Status HttpServer::CheckOptions(const HttpServerOptions& options) {
  if (!IsPlainAddress(options.bind_address) || options.port < 0 || options.port > 65'535) {
    return FailedStart(
        ErrorCode::kInvalid, 0,
        fmt::format("cannot listen for HTTP on '{}' port {}: not an address and port",
                    options.bind_address, options.port));
  }
  if (IsIpv6(options.bind_address) && mg_check_feature(MG_FEATURES_IPV6) == 0) {
    return FailedStart(ErrorCode::kUnsupported, 0,
                       fmt::format("cannot listen for HTTP on the IPv6 address {}: the civetweb "
                                   "library of this system was built without IPv6; bind to an "
                                   "IPv4 address",
                                   options.bind_address));
  }
  return {};
}

Status HttpServer::Start(const HttpServerOptions& options) {
  DOVETAIL_CHECK(context_ == nullptr);
  start_failure_.clear();
  if (const Status good = CheckOptions(options); !good.has_value()) return good;
  const std::string listen = IsIpv6(options.bind_address)
                                 ? fmt::format("[{}]:{}", options.bind_address, options.port)
                                 : fmt::format("{}:{}", options.bind_address, options.port);
  const std::string threads = std::to_string(options.threads);
  const std::string timeout_ms = std::to_string(options.request_timeout_ms);
  const std::string request_bytes_max = std::to_string(options.request_bytes_max);
  std::vector<const char*> settings;
  const auto set = [&settings](const char* name, const char* value) {
    settings.push_back(name);
    settings.push_back(value);
  };
  set("listening_ports", listen.c_str());
  set("num_threads", threads.c_str());
  set("request_timeout_ms", timeout_ms.c_str());
  set("max_request_size", request_bytes_max.c_str());
  set("enable_keep_alive", "no");
  // Without decoding, a path is compared as it came: no second spelling reaches a page.
  set("decode_url", "no");
  settings.push_back(nullptr);
  mg_callbacks callbacks{};
  callbacks.begin_request = &HttpServer::OnRequest;
  callbacks.log_message = &OnLogMessage;
  callbacks.log_access = &OnLogAccess;
  mg_init_data init{};
  init.callbacks = &callbacks;
  init.user_data = this;
  init.configuration_options = settings.data();
  std::array<char, 256> reason{};
  mg_error_data error{};
  error.text = reason.data();
  error.text_buffer_size = reason.size();

  mg_init_library(0);
  std::string complaints;
  start_complaints = &complaints;
  errno = 0;
  context_ = mg_start2(&init, &error);
  const int os_error = errno;
  start_complaints = nullptr;
  if (context_ == nullptr) {
    mg_exit_library();
    const ErrorCode code = os_error == EADDRINUSE ? ErrorCode::kBusy : ErrorCode::kInvalid;
    return FailedStart(code, os_error,
                       fmt::format("cannot listen for HTTP on {}: {}", listen,
                                   complaints.empty() ? reason.data() : complaints.c_str()));
  }
  mg_server_port bound{};
  DOVETAIL_CHECK(mg_get_server_ports(context_, 1, &bound) == 1);
  port_ = bound.port;
  bind_address_ = options.bind_address;
  return {};
}

void HttpServer::Stop() {
  if (context_ == nullptr) return;
  {
    const Waker waker(bind_address_, port_);
    mg_stop(context_);
  }
  mg_exit_library();
  context_ = nullptr;
  port_ = 0;
}

int HttpServer::OnRequest(mg_connection* connection) {
  return static_cast<const HttpServer*>(mg_get_user_data(mg_get_context(connection)))
      ->Answer(connection);
}

// Answers everything itself, so that none of the library's own pages, files or methods is
// reachable.
int HttpServer::Answer(mg_connection* connection) const {
  // Also keeps the library from reading the rest of a body, however slowly that comes.
  mg_disable_connection_keep_alive(connection);
  const mg_request_info* request = mg_get_request_info(connection);
  const std::string_view method = request->request_method != nullptr ? request->request_method : "";
  const std::string_view path = request->local_uri != nullptr ? request->local_uri : "";
  const auto route = routes_.find(path);
  if (route == routes_.end()) {
    Send(connection, method, {.status = 404, .body = "There is no such page.\n"});
    return 404;
  }
  if (method != "GET" && method != "HEAD") {
    Send(connection, method, {.status = 405, .body = "Only GET and HEAD.\n"},
         "Allow: GET, HEAD\r\n");
    return 405;
  }
  const HttpReply reply = route->second();
  Send(connection, method, reply);
  return reply.status;
}

}  // namespace dovetail::server
