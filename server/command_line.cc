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
  app->set_version_flag("--version", "dovetaild " DOVETAIL_VERSION, "Print the version and exit");
}

}  // namespace

std::expected<config::LoadedConfig, int> ParseCommandLine(int argc, const char* const* argv) {
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
  return std::move(*loaded);
}

}  // namespace dovetail::server
