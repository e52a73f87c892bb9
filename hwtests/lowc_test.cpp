// The command line as users see it: exit codes, one sentence on stderr, files.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hwtests/negative_controls.h"
#include "onnx.pb.h"
#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string out, err;
};

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void spill(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

class Lowc : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "lowc_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Runs in `folder_`; `prefix` goes before the command (environment, cd).
  Outcome lowc(const std::string& arguments, const std::string& prefix = "") {
    const std::string command = "cd " + folder_.string() + " && " + prefix + " " LOWC " " + arguments + " >" +
                                (folder_ / "out").string() + " 2>" + (folder_ / "err").string();
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder_ / "out"), slurp(folder_ / "err")};
  }

  void expect_refusal(const std::string& arguments, int code, const std::vector<std::string>& words) {
    const Outcome outcome = lowc(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << arguments << "\n" << outcome.err;
    for (const std::string& word : words)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " in " << outcome.err;
  }

  fs::path folder_;
};

// y = Op(x), x: f32 of the given dimensions (a name is symbolic).
std::string one_node_model(const std::string& op, const std::vector<std::string>& dims) {
  onnx::ModelProto model;
  model.set_ir_version(9);
  model.add_opset_import()->set_version(20);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("test");
  onnx::NodeProto& node = *graph.add_node();
  node.set_name("the_node");
  node.set_op_type(op);
  node.add_input("x");
  node.add_output("y");
  onnx::ValueInfoProto& x = *graph.add_input();
  x.set_name("x");
  x.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  auto& shape = *x.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const std::string& dim : dims) {
    if (std::isdigit(static_cast<unsigned char>(dim[0])) != 0) {
      shape.add_dim()->set_dim_value(std::stoll(dim));
    } else {
      shape.add_dim()->set_dim_param(dim);
    }
  }
  onnx::ValueInfoProto& y = *graph.add_output();
  y.set_name("y");
  y.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  return model.SerializeAsString();
}

TEST_F(Lowc, VerifiesTheTinyWorkloadsOnTheHostAndInTheInterpreter) {
  for (const std::string name : {"tiny-mlp-b1", "tiny-mlp-b2-repeat3", "tiny-mlp-f32"}) {
    ASSERT_EQ(lowc("workload " + name + " -o t.onnx").code, 0);
    const Outcome host = lowc("verify t.onnx");
    EXPECT_EQ(host.code, 0) << host.out << host.err;
    EXPECT_NE(host.out.find("PASS"), std::string::npos) << host.out;
    for (const std::string machine : {"host", "mi300x"}) {
      const Outcome interpreted = lowc("verify t.onnx --interpret --machine " + machine);
      EXPECT_EQ(interpreted.code, 0) << interpreted.out << interpreted.err;
    }
  }
}

TEST_F(Lowc, VerifyFailsForEachNegativeControl) {
  ASSERT_EQ(lowc("workload tiny-mlp-b2-repeat3 -o t.onnx").code, 0);
  const auto model = read_file((folder_ / "t.onnx").string());
  ASSERT_TRUE(model.has_value());
  const auto controls = make_negative_controls(*model);
  ASSERT_TRUE(controls.has_value()) << controls.error().message;
  EXPECT_EQ(controls->size(), 4u);
  for (const NegativeControl& control : *controls) {
    spill(folder_ / "wrong.onnx", control.model);
    ASSERT_EQ(lowc("compile wrong.onnx -o wrong.low").code, 0) << control.name;
    const Outcome outcome = lowc("verify t.onnx --package wrong.low");
    EXPECT_EQ(outcome.code, 1) << control.name << "\n" << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("FAIL"), std::string::npos) << control.name << "\n" << outcome.out;
  }
  // The control of the controls.
  ASSERT_EQ(lowc("compile t.onnx -o right.low").code, 0);
  EXPECT_EQ(lowc("verify t.onnx --package right.low").code, 0);
}

// Each element stays within 0.2 + 0.05 |b|; the RMS of the error tells.
TEST_F(Lowc, VerifyFailsForOneChangedWeight) {
  ASSERT_EQ(lowc("workload tiny-mlp-b2-repeat3 -o t.onnx").code, 0);
  const auto model = read_file((folder_ / "t.onnx").string());
  ASSERT_TRUE(model.has_value());
  const std::pair<const char*, size_t> weights[] = {{"w1_all", 1440}, {"w1_all", 100}, {"w2_all", 1440}};
  for (const auto& [name, index] : weights) {
    SCOPED_TRACE(std::string(name) + " " + std::to_string(index));
    const auto wrong = with_weight(*model, name, index, 0x7e);
    ASSERT_TRUE(wrong.has_value()) << wrong.error().message;
    spill(folder_ / "wrong.onnx", *wrong);
    ASSERT_EQ(lowc("compile wrong.onnx -o wrong.low").code, 0);
    const Outcome outcome = lowc("verify t.onnx --package wrong.low");
    EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("FAIL: 432 elements"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("% of the reference's, more than 0.02%"), std::string::npos) << outcome.out;
    EXPECT_EQ(lowc("verify t.onnx --package wrong.low --rms 0.003").code, 1);
    EXPECT_EQ(lowc("verify t.onnx --package wrong.low --rms 1 --atol 1").code, 0);
  }
}

TEST_F(Lowc, VerifySaysByWhatItJudged) {
  ASSERT_EQ(lowc("workload tiny-mlp-b2-repeat3 -o t.onnx").code, 0);
  const Outcome fp8 = lowc("verify t.onnx --interpret");
  EXPECT_NE(fp8.out.find("\ntolerances: 0.2 absolute, 0.05 relative, RMS 0.02%: few FP8 operands\n"), std::string::npos)
      << fp8.out;
  const Outcome given = lowc("verify t.onnx --interpret --atol 0.5 --rms 0.01");
  EXPECT_NE(given.out.find(
                "tolerances: 0.5 absolute, 0.05 relative, RMS 1%: few FP8 operands; as given with --atol, --rms\n"),
            std::string::npos)
      << given.out;
  ASSERT_EQ(lowc("workload tiny-mlp-f32 -o f.onnx").code, 0);
  const Outcome f32 = lowc("verify f.onnx --interpret");
  EXPECT_EQ(f32.code, 0) << f32.out << f32.err;
  EXPECT_NE(f32.out.find(": f32, sums of up to 40 terms, depth 2\n"), std::string::npos) << f32.out;
  const Outcome json = lowc("verify f.onnx --interpret --json");
  for (const char* member :
       {"\"rms_ratio\":", "\"tolerance\":{\"absolute\":", "\"reason\":\"f32, sums of up to 40 terms"})
    EXPECT_NE(json.out.find(member), std::string::npos) << member << json.out;
}

// log(x) of a model that is judged by abs(x): NaN on one side only.
TEST_F(Lowc, VerifyCountsNanOnOneSide) {
  spill(folder_ / "log.onnx", one_node_model("Log", {"2", "3"}));
  spill(folder_ / "abs.onnx", one_node_model("Abs", {"2", "3"}));
  const float x[] = {1, -2, 0, 1, -5, 1};
  spill(folder_ / "x.bin", std::string(reinterpret_cast<const char*>(x), sizeof(x)));
  ASSERT_EQ(lowc("compile log.onnx -o log.low").code, 0);
  const std::string verify = "verify abs.onnx --package log.low --input x=x.bin";
  const Outcome text = lowc(verify);
  EXPECT_EQ(text.code, 1) << text.err;
  EXPECT_NE(text.out.find("3 of them NaN or infinite on one side only; first: [1] is "), std::string::npos) << text.out;
  const Outcome json = lowc(verify + " --json");
  EXPECT_NE(json.out.find("\"nonfinite_mismatches\":3,\"first_nonfinite\":{\"index\":1,\"actual\":\""),
            std::string::npos)
      << json.out;
  EXPECT_NE(json.out.find("\"expected\":\"2\"}"), std::string::npos) << json.out;
}

TEST_F(Lowc, RefusesAPackageWithOneByteFlipped) {
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o t.onnx").code, 0);
  ASSERT_EQ(lowc("compile t.onnx -o a.low").code, 0);
  const std::string good = slurp(folder_ / "a.low");
  ASSERT_GT(good.size(), 1000u);
  for (const size_t at : {size_t{0}, size_t{100}, good.size() / 2, good.size() - 100, good.size() - 1}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    spill(folder_ / "bad.low", bad);
    expect_refusal("run bad.low --random", 3, {"bad.low"});
  }
  spill(folder_ / "bad.low", good.substr(0, good.size() / 2));
  expect_refusal("run bad.low --random", 3, {"bad.low"});
}

TEST_F(Lowc, PackagesAreTheSameBytesEverywhere) {
  ASSERT_EQ(lowc("workload tiny-mlp-b2-repeat3 -o t.onnx").code, 0);
  ASSERT_EQ(lowc("compile t.onnx --target host --target gfx942 --target gfx1100 -o a.low").code, 0);
  fs::create_directories(folder_ / "elsewhere" / "home");
  const Outcome other = lowc("compile ../t.onnx --target host --target gfx942 --target gfx1100 -o ../b.low --threads 1",
                             "cd elsewhere && HOME=$PWD/home TMPDIR=$PWD/home LC_ALL=tr_TR.UTF-8 TZ=Asia/Kathmandu");
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_TRUE(slurp(folder_ / "a.low") == slurp(folder_ / "b.low"));
  EXPECT_TRUE(fs::is_empty(folder_ / "elsewhere" / "home")) << "compile left files behind";
  const Outcome inspected = lowc("inspect a.low");
  for (const char* words : {"machine host:", "target gfx942: ", "machine rx7900xtx:", "vector and", " private bytes"})
    EXPECT_NE(inspected.out.find(words), std::string::npos) << words << " in " << inspected.out;
}

TEST_F(Lowc, ReplaysAPrintedPlan) {
  ASSERT_EQ(lowc("workload tiny-mlp-b2-repeat3 -o t.onnx").code, 0);
  const Outcome plan = lowc("compile t.onnx --print plan");
  ASSERT_EQ(plan.code, 0) << plan.err;
  spill(folder_ / "plan.txt", plan.out);
  ASSERT_EQ(lowc("compile t.onnx -o a.low").code, 0);
  ASSERT_EQ(lowc("compile t.onnx -o b.low --plan plan.txt").code, 0);
  EXPECT_TRUE(slurp(folder_ / "a.low") == slurp(folder_ / "b.low"));
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o u.onnx").code, 0);
  expect_refusal("compile u.onnx -o c.low --plan plan.txt", 3, {"plan"});
  EXPECT_FALSE(fs::exists(folder_ / "c.low"));
}

TEST_F(Lowc, RefusesBadModelsWithOneSentence) {
  spill(folder_ / "foo.onnx", one_node_model("Foo", {"2"}));
  spill(folder_ / "symbolic.onnx", one_node_model("Relu", {"batch", "3"}));
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o t.onnx").code, 0);
  const std::string whole = slurp(folder_ / "t.onnx");
  spill(folder_ / "cut.onnx", whole.substr(0, whole.size() / 2));
  expect_refusal("compile /dev/null -o a.low", 3, {"/dev/null"});
  expect_refusal("compile cut.onnx -o a.low", 3, {"cut.onnx"});
  expect_refusal("compile missing.onnx -o a.low", 3, {"missing.onnx"});
  expect_refusal("compile foo.onnx -o a.low", 4, {"foo.onnx", "the_node", "Foo", "20"});
  expect_refusal("compile symbolic.onnx -o a.low", 2, {"symbolic.onnx", "batch", "--dim"});
  EXPECT_FALSE(fs::exists(folder_ / "a.low"));
  EXPECT_EQ(lowc("verify symbolic.onnx --dim batch=2").code, 0);
}

TEST_F(Lowc, RefusesWrongCommandLines) {
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o t.onnx").code, 0);
  EXPECT_EQ(lowc("").code, 2);
  EXPECT_EQ(lowc("frobnicate").code, 2);
  EXPECT_EQ(lowc("compile").code, 2);
  EXPECT_EQ(lowc("compile t.onnx --frob").code, 2);
  EXPECT_EQ(lowc("--help").code, 0);
  expect_refusal("compile t.onnx --print nonsense", 2, {"nonsense", "tiles"});
  expect_refusal("compile t.onnx --machine nonsense", 2, {"nonsense", "mi300x"});
  expect_refusal("compile t.onnx --target nonsense", 2, {"nonsense"});
  expect_refusal("compile t.onnx --machine ipu21 -o a.low", 4, {"ipu21"});
  expect_refusal("compile t.onnx --machine ipu21 -o a.low", 4, {"ipu21", "no code generation"});
  expect_refusal("compile t.onnx --target gfx950 --clang clang++-19 -o a.low", 4, {"gfx950", "clang-22"});
  expect_refusal("compile t.onnx --target gfx942 --target host --tiles 0 -o a.low", 2, {"tiles"});
  expect_refusal("verify t.onnx --target gfx942 --target host", 2, {"host", "mi300x"});
  expect_refusal("run t.onnx", 2, {"\"x\"", "--random"});
  expect_refusal("run t.onnx --random --device hip:0", 5, {"hip:0", "host"});
  expect_refusal("run t.onnx --input z=z.npy", 2, {"\"z\"", "x"});
  expect_refusal("workload nonsense -o n.onnx", 2, {"nonsense", "tiny-mlp-b1"});
}

TEST_F(Lowc, ReadsInputsAndWritesOutputs) {
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o t.onnx").code, 0);
  ASSERT_EQ(lowc("compile t.onnx -o t.low").code, 0);
  const Outcome first = lowc("run t.low --random --seed 7 --output y=y.npy --output-dir all");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(slurp(folder_ / "y.npy") == slurp(folder_ / "all" / "y.npy"));
  const std::string npy = slurp(folder_ / "y.npy");
  const auto y = parse_npy(std::as_bytes(std::span(npy)), "y.npy");
  ASSERT_TRUE(y.has_value()) << y.error().message;
  // The output as an input of the same shape: another result.
  const Outcome second = lowc("run t.low --input x=y.npy --output y=z.npy");
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_FALSE(slurp(folder_ / "y.npy") == slurp(folder_ / "z.npy"));
  spill(folder_ / "short.bin", "1234");
  expect_refusal("run t.low --input x=short.bin", 3, {"short.bin"});
}

TEST_F(Lowc, TakesDimensionsFromTheInputsThatAreGiven) {
  spill(folder_ / "m.onnx", one_node_model("Relu", {"n", "3"}));
  spill(folder_ / "a.npy", serialize_npy(Tensor(DType::f32, {5, 3})));
  const Outcome run = lowc("run m.onnx --input x=a.npy");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(run.out.starts_with("y: f32[5,3] ")) << run.out;
  EXPECT_EQ(lowc("verify m.onnx --input x=a.npy").code, 0);
  EXPECT_EQ(lowc("bench m.onnx --input x=a.npy --runs 1").code, 0);
  EXPECT_EQ(lowc("run m.onnx --input x=a.npy --dim n=5 --dim n=5").code, 0);
  expect_refusal("run m.onnx --input x=a.npy --dim n=4", 2, {"lowc: m.onnx: ", "\"n\" is 5 by a.npy, but 4 by --dim"});
  expect_refusal("run m.onnx --random", 2, {"lowc: m.onnx: ", "\"n\"", "--dim n=N"});
  spill(folder_ / "u.onnx", one_node_model("Relu", {"?", "3", "?"}));
  expect_refusal("run u.onnx --random", 2, {"input \"x\": dimension 0 of [?,3,?]", "--shape x=N,3,N"});
  EXPECT_EQ(lowc("run u.onnx --random --shape x=1,3,4").code, 0);
}

TEST_F(Lowc, TensorsForDefaultValues) {
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(one_node_model("Add", {"2"})));
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.mutable_node(0)->add_input("c");
  *graph.add_input() = graph.input(0);
  graph.mutable_input(1)->set_name("c");
  onnx::TensorProto& c = *graph.add_initializer();
  c.set_name("c");
  c.set_data_type(onnx::TensorProto::FLOAT);
  c.add_dims(2);
  c.add_float_data(1);
  c.add_float_data(2);
  spill(folder_ / "m.onnx", model.SerializeAsString());
  const float numbers[] = {10, 20};
  spill(folder_ / "ten.bin", std::string(reinterpret_cast<const char*>(numbers), sizeof(numbers)));
  const std::string x = " --input x=ten.bin";
  EXPECT_NE(lowc("run m.onnx" + x).out.find(" min 11 max 22 "), std::string::npos);
  EXPECT_NE(lowc("run m.onnx --input c=ten.bin" + x).out.find(" min 20 max 40 "), std::string::npos);
  EXPECT_EQ(lowc("verify m.onnx --input c=ten.bin" + x).code, 0);
  ASSERT_EQ(lowc("compile m.onnx -o m.low").code, 0);
  for (const std::string command : {"run m.low", "verify m.onnx --package m.low"})
    expect_refusal(command + " --input c=ten.bin" + x, 2, {"\"c\"", "constant"});
}

TEST_F(Lowc, SaysItsVersion) {
  const Outcome version = lowc("--version");
  EXPECT_EQ(version.code, 0) << version.err;
  EXPECT_TRUE(version.out.starts_with("lowc ")) << version.out;
  EXPECT_NE(version.out.find("\nclang version "), std::string::npos) << version.out;
}

TEST_F(Lowc, LogsTheTimeOfEachStage) {
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o t.onnx").code, 0);
  const std::vector<std::string> stages = {"import",   "passes", "search",  "expand", "place",
                                           "schedule", "lower",  "codegen", "write"};
  EXPECT_EQ(lowc("compile t.onnx -o t.low").err, "");
  for (const std::string command : {"compile t.onnx -o t.low", "run t.onnx --random"}) {
    std::istringstream log(lowc(command + " -v").err);
    std::vector<std::string> seen;
    for (std::string word, stage, unit; log >> word >> stage;) {
      double milliseconds = -1;
      log >> milliseconds >> unit;
      EXPECT_EQ(word + unit, "lowc:ms");
      EXPECT_GE(milliseconds, 0);
      seen.push_back(stage.substr(0, stage.find(':')));
    }
    EXPECT_EQ(seen, stages) << command;
  }
}

TEST_F(Lowc, ReportsAsJsonAndText) {
  ASSERT_EQ(lowc("workload tiny-mlp-b2-repeat3 -o t.onnx").code, 0);
  ASSERT_EQ(lowc("compile t.onnx -o t.low").code, 0);
  for (const std::string command :
       {"inspect t.low --json", "bench t.low --runs 3 --json", "devices --json", "machines --json",
        "compile t.onnx --json", "verify t.onnx --json", "run t.low --random --json"}) {
    const Outcome outcome = lowc(command);
    EXPECT_EQ(outcome.code, 0) << command << outcome.err;
    EXPECT_TRUE(outcome.out.starts_with("{\"version\":1,")) << command << "\n" << outcome.out;
  }
  for (const std::string stage :
       {"import", "graph", "plan", "tiles", "cost", "placement", "schedule", "source", "program"}) {
    const Outcome outcome = lowc("compile t.onnx --print " + stage);
    EXPECT_EQ(outcome.code, 0) << stage << outcome.err;
    EXPECT_GT(outcome.out.size(), 100u) << stage;
  }
  EXPECT_NE(lowc("devices").out.find("host"), std::string::npos);
}

// The host's tiles are shared out to threads: twice as many take half as long, but for what is fixed. Other machines
// have their own tiles.
TEST_F(Lowc, PredictsForTheThreadsInUse) {
  ASSERT_EQ(lowc("workload mlp-b1 -o m.onnx").code, 0);
  const auto predicted = [&](const std::string& options) {
    const std::string text = lowc("compile m.onnx " + options).out;
    const std::string label = "predicted ";
    const size_t at = text.find(label);
    EXPECT_NE(at, std::string::npos) << text;
    return std::pair(std::stod(text.substr(at + label.size())), text.find("threads", at) != std::string::npos);
  };
  const auto one = predicted("--threads 1"), two = predicted("--threads 2"), many = predicted("--threads 16");
  EXPECT_NEAR(one.first / two.first, 2, 0.2);
  EXPECT_NEAR(one.first / many.first, 16, 4);
  EXPECT_TRUE(one.second && two.second);
  EXPECT_FALSE(predicted("--machine mi300x --threads 2").second);
}

// The columns of a row of the table, by the row's name; `next`: so many rows below it.
std::vector<std::string> cells(const std::string& text, const std::string& name, size_t next = 0) {
  size_t at = text.find("\n" + name + " ");
  for (; next > 0 && at != std::string::npos; --next) at = text.find('\n', at + 1);
  if (at == std::string::npos) return {};
  std::istringstream line(text.substr(at + 1, text.find('\n', at + 1) - at - 1));
  std::vector<std::string> words;
  for (std::string word; line >> word;) words.push_back(word);
  return {words.end() - std::min<std::ptrdiff_t>(2, std::ssize(words)), words.end()};
}

TEST_F(Lowc, ExplainsFinalistsSideBySide) {
  ASSERT_EQ(lowc("workload tiny-mlp-b2-repeat3 -o t.onnx").code, 0);
  for (const std::string machine : {"mi300x", "ipu21"}) {
    SCOPED_TRACE(machine);
    const Outcome outcome = lowc("compile t.onnx --finalists 2 --explain --machine " + machine);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::string& text = outcome.out;
    EXPECT_LT(text.find(" finalist 1\n"), text.find("\ncycles, as searched")) << text;
    for (const std::string row :
         {"cycles, as searched", "cycles, expanded", "  compute", "  memory", "  exchange", "  launch",
          "  padding, in compute", "supersteps in a run", "kernel runs in a run", "local copies in a run",
          "exchanges in a run", "recipients in a run", "bytes sent in a run", "bytes delivered in a run",
          "bytes copied locally in a run", "  capacity", "verdict"})
      EXPECT_EQ(cells(text, row).size(), 2u) << row << "\n" << text;
    EXPECT_EQ(cells(text, machine == "ipu21" ? "peak bytes of the busiest tile" : "peak bytes of global memory").size(),
              2u);
    const std::vector<std::string> verdicts = cells(text, "verdict");
    EXPECT_EQ(std::ranges::count(verdicts, "chosen"), 1) << text;
    // Three blocks, each once in the graph.
    for (const size_t column : {0u, 1u}) {
      const double run = std::stod(cells(text, "kernel runs in a run")[column]);
      const double graph = std::stod(cells(text, "kernel runs in a run", 1)[column]);
      EXPECT_GT(run, 2 * graph) << text;
      EXPECT_LE(run, 3 * graph) << text;
      if (machine == "mi300x") continue;
      EXPECT_GE(std::stod(cells(text, "bytes delivered in a run")[column]),
                std::stod(cells(text, "bytes sent in a run")[column]));
      EXPECT_GT(std::stod(cells(text, "bytes sent in a run")[column]), 0);
      EXPECT_LE(std::stod(cells(text, "peak bytes of the busiest tile")[column]),
                std::stod(cells(text, "  capacity")[column]));
    }
    EXPECT_NE(text.find("  matmul "), std::string::npos);
    EXPECT_NE(text.find(" same"), std::string::npos) << text;
    EXPECT_NE(text.find(" wins over finalist "), std::string::npos) << text;

    const std::string json = lowc("compile t.onnx --finalists 2 --json --machine " + machine).out;
    for (const std::string member :
         {"searched_cycles", "seconds", "runs", "verdict", "searched", "expanded", "in_graph", "in_run",
          "delivered_bytes", "sent_bytes", "copied_bytes", "peak_bytes", "decisions"})
      EXPECT_NE(json.find("\"" + member + "\":"), std::string::npos) << member << "\n" << json;
  }
}

TEST_F(Lowc, BenchmarksTheSearch) {
  ASSERT_EQ(lowc("workload tiny-mlp-row1 -o t.onnx").code, 0);
  const Outcome all = lowc("compile t.onnx --benchmark-search --runs 1");
  EXPECT_EQ(all.code, 0) << all.err;
  const std::string machines = lowc("machines").out;
  EXPECT_EQ(std::ranges::count(all.out, '\n'), std::ranges::count(machines, '\n')) << all.out;
  for (const std::string machine : {"host", "mi300x"}) {
    const Outcome one = lowc("compile t.onnx --benchmark-search --exhaustive --runs 2 --json --machine " + machine);
    EXPECT_EQ(one.code, 0) << one.err;
    const size_t at = one.out.find("\"ratio\":");
    ASSERT_NE(at, std::string::npos) << one.out;
    const double ratio = std::stod(one.out.substr(at + 8));
    EXPECT_GE(ratio, 1) << one.out;
    EXPECT_LE(ratio, 1.02) << one.out;
  }
  expect_refusal("compile t.onnx --benchmark-search --explain", 2, {"lowc: ", "--explain"});
  expect_refusal("compile t.onnx --exhaustive", 2, {"lowc: ", "--exhaustive"});
  expect_refusal("compile t.onnx --benchmark-search --machine nonsense", 2, {"lowc: ", "nonsense"});
}

TEST_F(Lowc, BenchmarksExpansion) {
  ASSERT_EQ(lowc("workload tiny-mlp-b2-repeat3 -o t.onnx").code, 0);
  const std::string compile = "compile t.onnx --machine ipu21 ";
  ASSERT_EQ(lowc(compile + "--print finalists").code, 0);
  fs::copy_file(folder_ / "out", folder_ / "plans.txt");
  const Outcome text = lowc(compile + "--benchmark-expansion --benchmark-expansion-uncached --runs 2 --plan plans.txt");
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* line : {"\ncached finalist 3: ", "\nuncached finalist 0: ", "copy plans: "})
    EXPECT_NE(("\n" + text.out).find(line), std::string::npos) << text.out;
  const Outcome json = lowc(compile + "--benchmark-expansion --json --runs 3");
  EXPECT_EQ(json.code, 0) << json.err;
  for (const char* member : {"\"copy_plans\":{\"entries\":", "\"recipients\":", "\"peak_resident_bytes\":"})
    EXPECT_NE(json.out.find(member), std::string::npos) << member << json.out;
  // An ordinary compile reports its caches, too.
  EXPECT_NE(lowc(compile + "--json").out.find("\"copy_descriptors\":{\"entries\":"), std::string::npos);
  expect_refusal(compile + "--runs 3", 2, {"lowc: ", "--runs"});
  expect_refusal(compile + "--benchmark-expansion --print plan", 2, {"lowc: ", "--benchmark-expansion"});
  spill(folder_ / "bad.txt", slurp(folder_ / "plans.txt") + "low-plan 1\n");
  expect_refusal(compile + "--plan bad.txt", 3, {"bad.txt", "number 5", "version '1'"});
}

TEST_F(Lowc, PinsAnAlgorithmOfAttention) {
  for (const std::string workload : {"tiny-flash-attention-b1", "tiny-materialized-attention-b1"}) {
    ASSERT_EQ(lowc("workload " + workload + " -o t.onnx").code, 0);
    for (const std::string algorithm : {"flash", "materialized"}) {
      for (const std::string machine : {"host", "mi300x", "ipu21"}) {
        const std::string pinned = " t.onnx --attention " + algorithm + " --machine " + machine;
        const Outcome plans = lowc("compile" + pinned + " --print finalists");
        EXPECT_NE(plans.out.find("attention " + algorithm + " grid"), std::string::npos) << plans.err;
        EXPECT_EQ(plans.out.find(algorithm == "flash" ? "attention materialized" : "attention flash"),
                  std::string::npos);
        EXPECT_EQ(lowc("verify" + pinned + " --interpret").code, 0) << pinned;
      }
      EXPECT_EQ(lowc("verify t.onnx --attention " + algorithm).code, 0) << workload << " " << algorithm;
    }
  }
  expect_refusal("compile t.onnx --attention both", 2, {"lowc: ", "--attention"});
}

TEST_F(Lowc, KeepsRepeatsOfOneIteration) {
  ASSERT_EQ(lowc("workload tiny-mlp-b2-repeat3 --repeat 1 -o t.onnx").code, 0);
  EXPECT_EQ(lowc("compile t.onnx --print graph").out.find("repeat"), std::string::npos);
  EXPECT_NE(lowc("compile t.onnx --print graph --keep-repeats").out.find("repeat"), std::string::npos);
  EXPECT_EQ(lowc("compile t.onnx --keep-repeats -o t.low").code, 0);
  EXPECT_EQ(lowc("verify t.onnx --package t.low").code, 0);
}

TEST_F(Lowc, AWrongCommandLineIsOneSentence) {
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o t.onnx").code, 0);
  ASSERT_EQ(lowc("compile t.onnx -o a.low").code, 0);
  expect_refusal("", 2, {"lowc: ", "subcommand"});
  expect_refusal("nonsense", 2, {"lowc: ", "nonsense"});
  expect_refusal("compile t.onnx --bogus", 2, {"lowc: ", "--bogus"});
  expect_refusal("compile t.onnx --tiles 0", 2, {"lowc: ", "--tiles"});
  expect_refusal("compile t.onnx --shape x=1,", 2, {"lowc: ", "--shape x"});
  expect_refusal("compile t.onnx --dim n=1 --dim n=2", 2, {"lowc: ", "\"n\" is given as 1 and as 2"});
  expect_refusal("compile t.onnx --shape x=1,2 --shape x=3", 2, {"lowc: ", "\"x\" is given as [1,2] and as [3]"});
  expect_refusal("compile t.onnx --explain --json", 2, {"lowc: ", "--explain", "--json"});
  expect_refusal("verify t.onnx --atol nan", 2, {"lowc: ", "--atol"});
  expect_refusal("verify t.onnx --seed -1", 2, {"lowc: ", "--seed"});
  // Options that say how to compile do nothing to a package.
  for (const std::string option :
       {"--dim n=1", "--shape x=1", "--tiles 2", "--machine host", "--plan p", "--target host"})
    expect_refusal("run a.low --random " + option, 2, {"lowc: a.low: ", option.substr(0, option.find(' '))});
}

TEST_F(Lowc, NamesOfAnyBytesStayOnOneLineOfText) {
  std::string model = one_node_model("Bo\ngus", {"3"});
  spill(folder_ / "m.onnx", model);
  expect_refusal("compile m.onnx", 4, {"lowc: m.onnx: ", "the_node"});
  spill(folder_ / "p.txt", "low-plan 2\nmachine \xff\x1b[2J\n");
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o t.onnx").code, 0);
  expect_refusal("compile t.onnx --plan p.txt", 3, {"lowc: t.onnx: p.txt: "});
  EXPECT_EQ(lowc("compile t.onnx --plan p.txt").err.find_first_of("\x1b\xff"), std::string::npos);
}

TEST_F(Lowc, LostDataIsAnError) {
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o t.onnx").code, 0);
  ASSERT_EQ(lowc("compile t.onnx -o a.low").code, 0);
  for (const std::string command :
       {"machines", "--help", "inspect a.low", "inspect a.low --extract manifest.json", "run a.low --random",
        "compile t.onnx --print source", "verify t.onnx --package a.low --json"}) {
    for (const std::string target : {">/dev/full", ">&-"}) {
      const std::string line =
          "cd " + folder_.string() + " && " LOWC " " + command + " " + target + " 2>" + (folder_ / "err").string();
      const int status = std::system(line.c_str());
      const std::string err = slurp(folder_ / "err");
      EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 3) << command << target << "\n" << err;
      EXPECT_TRUE(err.starts_with("lowc: standard output: ")) << command << target << "\n" << err;
    }
  }
}

TEST_F(Lowc, PrintingAnEarlyStageStillWritesThePackage) {
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o t.onnx").code, 0);
  for (const std::string stage : {"import", "graph"}) {
    const Outcome outcome = lowc("compile t.onnx --print " + stage + " -o " + stage + ".low");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out.substr(0, 11), "low-graph 2");
    EXPECT_EQ(lowc("inspect " + stage + ".low").code, 0) << stage;
  }
}

TEST_F(Lowc, AToolchainThatCannotWorkIsNoInternalError) {
  ASSERT_EQ(lowc("workload tiny-mlp-b1 -o t.onnx").code, 0);
  expect_refusal("compile t.onnx -o a.low --clang /nonexistent", 4, {"lowc: t.onnx: ", "/nonexistent"});
  // Says that it is clang, and then fails or has no linker.
  const auto fake = [&](const std::string& linker, const std::string& otherwise) {
    spill(folder_ / "clang", "#!/bin/sh\ncase \"$*\" in\n*-print-prog-name=*) echo 'clang version 19.0.0'; echo " +
                                 linker + ";;\n*) " + otherwise + ";;\nesac\n");
    fs::permissions(folder_ / "clang", fs::perms::owner_all);
  };
  fake("ld.lld", "kill -9 $$");
  expect_refusal("compile t.onnx -o a.low --clang ./clang", 4, {"lowc: t.onnx: ", "./clang", "137"});
  fake("/nonexistent/ld.lld", "while [ $# -gt 1 ]; do shift; done; : > \"$1\"");
  expect_refusal("compile t.onnx -o a.low --clang ./clang", 4, {"lowc: t.onnx: ", "./clang", "/nonexistent/ld.lld"});
  EXPECT_FALSE(fs::exists(folder_ / "a.low"));
}

}  // namespace
}  // namespace low
