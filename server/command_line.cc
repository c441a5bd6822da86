#include "server/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dovetail::server {
namespace {

struct Arguments {
  std::string config_file;
  std::vector<std::string> sets;
  bool check_config = false;
  bool print_config = false;
  bool probe = false;
  ProbeArguments probe_arguments;
};

void Declare(CLI::App* app, Arguments* arguments) {
  app->add_option("--config", arguments->config_file, "TOML file with the configuration")
      ->type_name("FILE");
  app->add_option("--set", arguments->sets,
                  "Set one key over the file, such as memory_store.capacity=3G; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);  // one value each, so that what follows is not swallowed
  CLI::Option* check =
      app->add_flag("--check-config", arguments->check_config, "Check the configuration and exit");
  app->add_flag("--print-config", arguments->print_config,
                "Print the configuration in force with the source of each value, and exit")
      ->excludes(check);
  CLI::Option* probe = app->add_flag("--probe", arguments->probe,
                                     "Tell what each data path can do and whether a start would "
                                     "take it, and exit; writes and removes a test file there");
  probe->excludes(check)->excludes("--print-config");
  app->add_flag("--json", arguments->probe_arguments.json, "With --probe: answer in JSON")
      ->needs(probe);
  app->add_option("PATH", arguments->probe_arguments.paths,
                  "With --probe: folders to look at instead of localfile_store.data_paths")
      ->needs(probe);
  app->set_version_flag("--version", "dovetaild " DOVETAIL_VERSION, "Print the version and exit");
}

}  // namespace

std::expected<Invocation, int> ParseCommandLine(int argc, const char* const* argv) {
  CLI::App app("Dovetail shuffle server: keeps shuffle data of Spark applications.", "dovetaild");
  Arguments arguments;
  Declare(&app, &arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked_for = app.exit(error, std::cout, std::cerr) == kExitClean;
    return std::unexpected(asked_for ? kExitClean : kExitCommandLine);
  }

  std::optional<std::string> file;
  if (app.count("--config") > 0) file = arguments.config_file;
  std::expected<config::LoadedConfig, config::Problems> loaded = config::Load(file, arguments.sets);
  if (!loaded) {
    for (const std::string& problem : loaded.error()) std::cerr << problem << '\n';
    std::cerr << fmt::format("dovetaild: {} in the configuration, see above.\n",
                             loaded.error().size() == 1
                                 ? std::string("1 problem")
                                 : fmt::format("{} problems", loaded.error().size()));
    return std::unexpected(kExitConfiguration);
  }
  if (arguments.print_config) {
    std::cout << config::Print(*loaded);
    return std::unexpected(kExitClean);
  }
  if (arguments.check_config) {
    std::cout << "dovetaild: the configuration is valid.\n";
    return std::unexpected(kExitClean);
  }
  Invocation invocation{.config = std::move(loaded->config)};
  if (arguments.probe) {
    if (arguments.probe_arguments.paths.empty() &&
        invocation.config.store.local_file.data_paths.empty()) {
      std::cerr << "dovetaild: nothing to probe: name folders behind --probe, or set "
                   "localfile_store.data_paths.\n";
      return std::unexpected(kExitCommandLine);
    }
    invocation.probe = std::move(arguments.probe_arguments);
  }
  return invocation;
}

}  // namespace dovetail::server
