// Runs ONNX's node tests through the frontend and the reference, and checks the outcome of each against the committed
// list. `--update` writes the list anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>

#include "hwtests/node_tests.h"
#include "reference/reference.h"
#include "runtime/tensor/tensor_file.h"

namespace low::node_tests {
namespace {

const std::string data_folder = LOW_SOURCE_DIR "/build/onnx/node";
const std::string list_path = LOW_SOURCE_DIR "/hwtests/testdata/onnx_node_tests.txt";

RunResult run_on_reference(const GraphRun& run) { return reference::run(run.graph, run.inputs); }

Result<std::vector<CaseResult>> run_reference() {
  LOW_TRY(const std::vector<std::string> names, case_names(data_folder));
  ThreadPool pool(0);
  return run_cases(data_folder, names, one_by_one(run_on_reference), pool);
}

TEST(OnnxNodes, Reference) {
  if (!std::filesystem::is_directory(data_folder)) {
    GTEST_SKIP() << data_folder << " is missing: './dev test' makes ONNX's test data";
  }
  ThreadPool pool(0);
  const auto differences = judge(data_folder, list_path, LOW_BINARY_DIR "/onnx_node_tests_reference.txt", "reference",
                                 one_by_one(run_on_reference), pool);
  ASSERT_TRUE(differences) << differences.error().message;
  for (const std::string& difference : *differences) ADD_FAILURE() << difference;
}

TEST(OnnxNodes, AWrongResultIsAMismatch) {
  if (!std::filesystem::is_directory(data_folder)) {
    GTEST_SKIP() << data_folder << " is missing: './dev test' makes ONNX's test data";
  }
  const Backend zeros = one_by_one([](const GraphRun& run) {
    RunResult results = run_on_reference(run);
    if (results) (*results)[0] = Tensor((*results)[0].dtype(), (*results)[0].shape());
    return results;
  });
  EXPECT_EQ(run_case(data_folder, "test_add", zeros).outcome, Outcome::mismatch);
  EXPECT_EQ(run_case(data_folder, "test_cast_FLOAT_to_FLOAT8E4M3FN", zeros).outcome, Outcome::mismatch);
  const Backend no_backend =
      one_by_one([](const GraphRun&) -> RunResult { return fail(ErrorKind::device, "no device"); });
  EXPECT_EQ(run_case(data_folder, "test_add", no_backend).outcome, Outcome::error);
  EXPECT_EQ(run_case(data_folder, "test_that_is_not_there", no_backend).outcome, Outcome::error);
}

TEST(NodeTestList, DifferencesFromTheList) {
  const std::vector<CaseResult> results = {{"a", Outcome::passed, ""},   {"b", Outcome::mismatch, "1 is not 2"},
                                           {"c", Outcome::passed, ""},   {"d", Outcome::refused, "no strings"},
                                           {"e", Outcome::error, "bad"}, {"f", Outcome::refused, "no int4"},
                                           {"g", Outcome::passed, ""}};
  const auto list =
      parse_expectations("# comment\na pass\nb pass\nc refuse why\nd refuse why not\ne refuse x\nf pass\nh pass\n");
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(differences(results, *list),
            (std::vector<std::string>{"b should pass: mismatch, 1 is not 2", "c should be refused: passed",
                                      "e should be refused: error, bad", "f should pass: refused, no int4",
                                      "g is not in the list (passed)", "h is in the list but not among the cases"}));
}

TEST(NodeTestList, SummaryCountsReasons) {
  const std::string node = "model.onnx: node \"\" (#0): ";
  const std::vector<CaseResult> results = {
      {"a", Outcome::passed, ""},
      {"b", Outcome::mismatch, "1 is not 2"},
      {"c", Outcome::error, "bad"},
      {"d", Outcome::refused, node + "operator ai.onnx.Conv (opset 22) is not supported"},
      {"e", Outcome::refused, node + node + "operator ai.onnx.Resize (opset 19) is not supported"},
      {"f", Outcome::refused, node + "operator ai.onnx.Resize (opset 18) is not supported"},
      {"g", Outcome::refused, node + "operator ai.onnx.ml.Scaler (opset 3) is not supported"},
      {"h", Outcome::refused, "input_0.pb: data type STRING is not supported"},
      {"i", Outcome::refused, "model.onnx: input \"x\": data type INT4 is not supported"},
      {"j", Outcome::refused, node + "Cast: data type INT4 is not supported"},
      {"k", Outcome::refused, "model.onnx: input \"x\": it is not a dense tensor"},
      {"l", Outcome::refused, node + "Tile: the repeats are not known before the model runs"},
      {"n", Outcome::refused, "model.onnx: opset 1 is not supported, 7 to 28 are"},
      {"m", Outcome::refused, node + "Pad: mode \"what: this\" is not supported"}};
  EXPECT_EQ(summary("reference", results),
            "ONNX node tests: reference passes 1 of 14, refuses 11, 1 mismatch, 1 error\n"
            "  4 operators: Resize 2, Conv 1, ai.onnx.ml.Scaler 1\n"
            "  3 data types: INT4 2, STRING 1\n"
            "  1 forms of operators: Pad 1\n"
            "  1 opsets: opset 1 1\n"
            "  1 sequences and optionals: input 1\n"
            "  1 values that are known too late: Tile 1\n");
}

TEST(NodeTestList, WrittenListIsFulfilled) {
  const std::vector<CaseResult> results = {{"a", Outcome::passed, ""}, {"d", Outcome::refused, "no\nstrings"}};
  const auto list = parse_expectations(expectations_text(results));
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ((*list)[1].reason, "no strings");
  EXPECT_TRUE(differences(results, *list).empty());
}

TEST(NodeTestList, MalformedLines) {
  for (const std::string_view text : {"a", "a b", "a refuse", "a passes", " "}) {
    const auto list = parse_expectations(text);
    ASSERT_FALSE(list) << text;
    EXPECT_EQ(list.error().kind, ErrorKind::invalid);
  }
}

int update() {
  const auto results = run_reference();
  if (!results) {
    fmt::print(stderr, "{}\n", results.error().message);
    return 1;
  }
  const std::string text = expectations_text(*results);
  if (const auto written = write_file(list_path, std::as_bytes(std::span(text))); !written) {
    fmt::print(stderr, "{}\n", written.error().message);
    return 1;
  }
  fmt::print("{}\n{}", list_path, summary("reference", *results));
  return 0;
}

}  // namespace
}  // namespace low::node_tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 2 && std::string_view(argv[1]) == "--update") return low::node_tests::update();
  return RUN_ALL_TESTS();
}
