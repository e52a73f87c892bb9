// For tests: the instructions and loops of machine code, whether this machine runs it or not.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/subprocess.h"

namespace low::testing {

struct Instruction {
  std::string name;  // "s_branch"
};

// Instructions [begin, end] of a function, from where a jump at the end goes back to.
struct Loop {
  size_t begin = 0, end = 0;
};

struct Function {
  std::vector<Instruction> code;
  std::vector<Loop> loops;  // by their ends

  size_t count(const Loop& loop, const std::function<bool(const Instruction&)>& counted) const {
    size_t all = 0;
    for (size_t i = loop.begin; i <= loop.end; ++i) all += counted(code[i]) ? 1 : 0;
    return all;
  }
};

// By symbol. `objdump` is llvm-objdump, of a version that knows the object's target.
inline std::map<std::string, Function> disassemble(std::string_view objdump, const std::string& object) {
  const auto folder = TemporaryFolder::create();
  EXPECT_TRUE(folder);
  const std::string path = folder->path() + "/object";
  std::ofstream(path, std::ios::binary) << object;
  const std::string arguments[] = {std::string(objdump), "--disassemble", "--no-show-raw-insn", "--symbolize-operands",
                                   path};
  const auto done = run_process(arguments, "", *folder);
  EXPECT_TRUE(done && done->started && done->status == 0);
  std::map<std::string, Function> functions;
  if (!done) return functions;
  Function* function = nullptr;
  std::map<std::string, size_t> labels;
  std::istringstream lines(done->output);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(">:")) {  // "0000000000001a00 <low_entry_0>:", and "<L0>:" with or without an address
      const size_t begin = line.find('<') + 1;
      const std::string name = line.substr(begin, line.size() - begin - 2);
      if (name.front() == 'L' && name.find_first_not_of("0123456789", 1) == std::string::npos && function != nullptr) {
        labels[name] = function->code.size();
      } else {
        function = &functions[name];
        labels.clear();
      }
      continue;
    }
    if (function == nullptr || line.empty() || (line.front() != ' ' && line.front() != '\t')) continue;
    std::istringstream words(line.substr(0, line.find("//")));
    Instruction instruction;
    std::string text, target;
    if (!(words >> instruction.name)) continue;
    if (instruction.name.back() == ':' && !(words >> instruction.name)) continue;  // an address
    std::getline(words, text);
    // "L12" or "<L12>", as the last word.
    if (const size_t last = text.find_last_not_of(" \t>"); last != std::string::npos) {
      const size_t before = text.find_last_of(" \t<", last);
      target = text.substr(before == std::string::npos ? 0 : before + 1, last - before);
    }
    if (const auto label = labels.find(target); label != labels.end())
      function->loops.push_back({label->second, function->code.size()});
    function->code.push_back(std::move(instruction));
  }
  return functions;
}

}  // namespace low::testing
