// The text of every stage, as files: compiler/testdata/golden/*.txt, and the plans under artifacts/plans. A file holds
//
//   # comments
//   run: STAGE [workload=NAME] [repeat=N] [unrolled=N] [machine=NAME] [tiles=N]
//   --- input
//   the graph's text, if no workload is named; for STAGE `parse-graph`, `parse-plan`, `parse-tiles`, `parse-machine` or
//   `parse-expr` the text to parse
//   --- plan
//   the plan to follow, if it is not to be searched for; "graph this" stands for the graph's digest
//   --- expect
//   what the stage prints; in a file whose name begins with fail_, the message
//
// `low_compile_test --update --gtest_filter=*Golden*` rewrites what is expected, for a person to read the difference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "compiler/compile.h"
#include "compiler/graph/passes/passes.h"
#include "compiler/test_support.h"
#include "compiler/workload/workload.h"

namespace low {
namespace {

const std::filesystem::path root = LOW_SOURCE_DIR;

bool updates() {
  const std::vector<std::string> arguments = testing::internal::GetArgvs();
  return std::ranges::find(arguments, "--update") != arguments.end();
}

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root / folder, error))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// "fail_bad_grid.txt" -> "fail_bad_grid", with nothing in it that GoogleTest refuses.
std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.find(".txt"));
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

struct Golden {
  std::string head;  // all before "--- expect"
  std::string stage;
  std::map<std::string, std::string> options;
  std::string input, plan, expected;
};

Golden parse_golden(const std::string& text) {
  Golden golden;
  std::string* section = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool expect = line == "--- expect";
    if (section != &golden.expected && !expect) golden.head += line + "\n";
    if (expect) {
      section = &golden.expected;
    } else if (line == "--- input" && section == nullptr) {
      section = &golden.input;
    } else if (line == "--- plan" && section != &golden.expected) {
      section = &golden.plan;
    } else if (section != nullptr) {
      *section += line + "\n";
    } else if (line.starts_with("run: ")) {
      std::istringstream words(line.substr(5));
      words >> golden.stage;
      for (std::string word; words >> word;) {
        const size_t equals = word.find('=');
        golden.options[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
      }
    } else if (!line.empty() && !line.starts_with("#")) {
      ADD_FAILURE() << "what is this: " << line;
    }
  }
  return golden;
}

std::optional<int> number(const Golden& golden, const std::string& name) {
  const auto found = golden.options.find(name);
  if (found == golden.options.end()) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  EXPECT_TRUE(error == std::errc() && end == found->second.data() + found->second.size()) << name;
  return value;
}

// x's text, which has to be a fixed point of printing and parsing. `parse` gives back a value of the same type.
template <typename T, typename Parse>
std::string round_trip(const T& x, const Parse& parse) {
  const std::string text = print(x);
  const Result<T> again = parse(text);
  EXPECT_TRUE(again) << again.error().message;
  if (again) {
    EXPECT_EQ(print(*again), text);
    EXPECT_EQ(*again, x);
  }
  return text;
}

std::string text_of(const Graph& graph) {
  return round_trip(graph, [&](const std::string& text) { return parse_graph(text, constants_by_hash(graph)); });
}
std::string text_of(const Plan& plan) { return round_trip(plan, parse_plan); }
std::string text_of(const TileGraph& graph) {
  ConstantsByHash constants;
  for (const auto& constant : graph.constants())
    constants.emplace_back(constant_hash(*constant.tensor()), constant.tensor());
  return round_trip(graph, [&](const std::string& text) { return parse_tile_graph(text, constants); });
}

Result<std::string> parsed_text(const std::string& stage, const std::string& input) {
  if (stage == "parse-graph") {
    LOW_TRY(const Graph graph, parse_graph(input, {}));
    return text_of(graph);
  }
  if (stage == "parse-plan") {
    LOW_TRY(const Plan plan, parse_plan(input));
    return text_of(plan);
  }
  if (stage == "parse-tiles") {
    LOW_TRY(const TileGraph tiles, parse_tile_graph(input, {}));
    return text_of(tiles);
  }
  if (stage == "parse-machine") {
    LOW_TRY(const Machine machine, parse_machine(input, "machine"));
    return machine.name + "\n";
  }
  if (stage == "parse-expr") {
    LOW_TRY(const Expr expr, parse_expr(input.substr(0, input.find('\n'))));
    EXPECT_EQ(to_string(*parse_expr(to_string(expr))), to_string(expr));
    return to_string(expr) + "\n";
  }
  return fail(ErrorKind::usage, "there is no stage " + stage);
}

Result<std::string> run(const Golden& golden) {
  const std::string& stage = golden.stage;
  if (stage.starts_with("parse-")) return parsed_text(stage, golden.input);
  const bool inline_graph = !golden.options.contains("workload");
  LOW_TRY(const Graph imported,
          inline_graph ? parse_graph(golden.input, {})
                       : test::workload_graph(golden.options.at("workload"), {.repeat = number(golden, "repeat"),
                                                                              .unrolled = number(golden, "unrolled")}));
  if (stage == "import") return text_of(imported);
  CompileOptions options;
  options.search.finalists = 1;
  if (golden.options.contains("machine")) options.machine = golden.options.at("machine");
  if (const std::optional<int> tiles = number(golden, "tiles")) options.tiles = static_cast<uint32_t>(*tiles);
  LOW_TRY(const Machine machine, select_machine(options));
  LOW_TRY(const Graph graph, graph_for(machine, imported, options.passes));
  if (stage == "graph") return text_of(graph);
  if (!golden.plan.empty()) {
    options.plans = {{golden.plan, "plan"}};
    if (const size_t at = golden.plan.find("graph this\n"); at != std::string::npos)
      options.plans[0].text.replace(at + 6, 4, digest(graph));
  }
  ThreadPool pool(1);
  LOW_TRY(const PlannedProgram planned, plan_program(graph, machine, options, pool));
  if (stage == "plan") return text_of(planned.plan());
  if (stage == "tiles") return text_of(planned.graph);
  if (stage == "placement") return print(planned.placement, planned.graph);
  if (stage == "schedule") return print(planned.schedule, planned.graph);
  const KernelSet kernels = collect_kernels(planned.graph, planned.schedule);
  LOW_TRY(const Program program,
          lower_program(planned.graph, planned.placement, planned.schedule, kernels, planned.machine));
  if (stage == "program") return print(program);
  return fail(ErrorKind::usage, "there is no stage " + stage);
}

const std::filesystem::path golden_folder = "compiler/testdata/golden";

class GoldenFiles : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenFiles, PrintsWhatIsExpected) {
  const std::filesystem::path path = root / golden_folder / GetParam();
  const Golden golden = parse_golden(read(path));
  const Result<std::string> result = run(golden);
  const bool fails = GetParam().starts_with("fail_");
  ASSERT_EQ(result.has_value(), !fails) << (result ? *result : result.error().message);
  const std::string actual = result ? *result : result.error().message + "\n";
  if (updates() && actual != golden.expected)
    std::ofstream(path, std::ios::binary) << golden.head << "--- expect\n" << actual;
  else
    EXPECT_EQ(actual, golden.expected) << "--update rewrites what is expected";
}
INSTANTIATE_TEST_SUITE_P(Files, GoldenFiles, testing::ValuesIn(files_in(golden_folder)), test_name);

// Plans that were pinned with `./dev goldens`: NAME.MACHINE.txt.
const std::filesystem::path plan_folder = "artifacts/plans";

class PinnedPlans : public ::testing::TestWithParam<std::string> {};

TEST_P(PinnedPlans, FitTheirWorkloads) {
  const std::string& file = GetParam();
  const std::string text = read(root / plan_folder / file);
  const Result<Plan> plan = parse_plan(text);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(print(*plan), text);
  const std::string workload = file.substr(0, file.find('.'));
  EXPECT_EQ(file, workload + "." + plan->machine + ".txt");
  if (!workload.starts_with("tiny-")) return;  // the others take long in a checked build
  const Result<Graph> imported = test::workload_graph(workload, {});
  ASSERT_TRUE(imported) << imported.error().message;
  CompileOptions options;
  options.machine = plan->machine;
  options.plans = {{text, file}};
  const Result<Machine> machine = select_machine(options);
  ASSERT_TRUE(machine) << machine.error().message;
  const Result<Graph> graph = graph_for(*machine, *imported, options.passes);
  ASSERT_TRUE(graph) << graph.error().message;
  ThreadPool pool(1);
  const Result<PlannedProgram> planned = plan_program(*graph, *machine, options, pool);
  ASSERT_TRUE(planned) << planned.error().message << "\n`./dev goldens` makes plans for changed passes";
  EXPECT_EQ(planned->plan(), *plan);
  if (!machine->global_memory) return;  // nothing is generated for such a machine
  const KernelSet kernels = collect_kernels(planned->graph, planned->schedule);
  const Result<Program> program =
      lower_program(planned->graph, planned->placement, planned->schedule, kernels, *machine);
  EXPECT_TRUE(program) << program.error().message;
}
INSTANTIATE_TEST_SUITE_P(Files, PinnedPlans, testing::ValuesIn(files_in(plan_folder)), test_name);

}  // namespace
}  // namespace low
