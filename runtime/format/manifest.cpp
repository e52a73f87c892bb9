#include "runtime/format/package.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <initializer_list>
#include <limits>
#include <set>

namespace low {
namespace {

namespace json = boost::json;

constexpr uint64_t manifest_version = 1;

// JSON holds UTF-8 only; in a model's name that is something else, each foreign byte becomes a question mark.
json::value text_value(std::string_view text) {
  json::value value(json::string(text.data(), text.size()));
  boost::system::error_code error;
  json::parse(json::serialize(value), error);
  if (!error) return value;
  std::string ascii(text);
  for (char& c : ascii) {
    if ((static_cast<unsigned char>(c) & 0x80) != 0) c = '?';
  }
  return json::value(json::string(ascii.data(), ascii.size()));
}

// Members are inserted in order of name.
json::value to_json(const KernelInfo& kernel) {
  json::object object;
  object["lds_bytes"] = kernel.lds_bytes;
  object["name"] = text_value(kernel.name);
  object["private_bytes"] = kernel.private_bytes;
  object["sgprs"] = kernel.sgprs;
  object["sgpr_spills"] = kernel.sgpr_spills;
  object["vgpr_spills"] = kernel.vgpr_spills;
  object["vgprs"] = kernel.vgprs;
  return object;
}

json::value to_json(const TargetInfo& target) {
  json::object object;
  object["base"] = text_value(target.base);
  object["clang_version"] = text_value(target.clang_version);
  object["file"] = text_value(target.file);
  json::array kernels;
  for (const KernelInfo& kernel : target.kernels) kernels.push_back(to_json(kernel));
  object["kernels"] = std::move(kernels);
  object["scratch_bytes"] = target.scratch_bytes;
  object["target"] = text_value(target.target);
  return object;
}

json::value to_json(const VariantInfo& variant) {
  json::object object;
  object["machine"] = text_value(variant.machine);
  json::array targets;
  for (const TargetInfo& target : variant.targets) targets.push_back(to_json(target));
  object["targets"] = std::move(targets);
  return object;
}

// Reads the members of one object; the first thing that is wrong stays.
class Members {
 public:
  Members(const json::value& value, std::string where, std::initializer_list<std::string_view> names)
      : object_(value.if_object()), where_(std::move(where)) {
    if (object_ == nullptr) {
      error_ = fmt::format("{} is not an object", where_);
      return;
    }
    for (const auto& member : *object_) {
      const std::string_view key(member.key().data(), member.key().size());
      if (std::find(names.begin(), names.end(), key) == names.end())
        set_error(fmt::format("{} has an unknown member '{}'", where_, key));
    }
  }

  std::string text(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr) return {};
    if (const json::string* string = value->if_string()) return std::string(string->data(), string->size());
    set_error(fmt::format("'{}' of {} is not a string", name, where_));
    return {};
  }
  uint64_t number(std::string_view name, uint64_t max = std::numeric_limits<uint64_t>::max()) {
    const json::value* value = find(name);
    if (value == nullptr) return 0;
    uint64_t result = 0;
    if (const int64_t* small = value->if_int64(); small != nullptr && *small >= 0) {
      result = static_cast<uint64_t>(*small);
    } else if (const uint64_t* large = value->if_uint64()) {
      result = *large;
    } else {
      set_error(fmt::format("'{}' of {} is not a whole number of at least 0", name, where_));
    }
    if (result <= max) return result;
    set_error(fmt::format("'{}' of {} is {}, expected at most {}", name, where_, result, max));
    return 0;
  }
  uint32_t number32(std::string_view name) {
    return static_cast<uint32_t>(number(name, std::numeric_limits<uint32_t>::max()));
  }
  // Calls read(value, where) for each element.
  template <typename Read>
  void elements(std::string_view name, const Read& read) {
    const json::value* value = find(name);
    if (value == nullptr) return;
    const json::array* array = value->if_array();
    if (array == nullptr) return set_error(fmt::format("'{}' of {} is not an array", name, where_));
    for (size_t i = 0; i < array->size(); ++i) {
      set_error(read((*array)[i], fmt::format("{}.{}[{}]", where_, name, i)));
    }
  }
  void set_error(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }
  const std::string& error() const { return error_; }

 private:
  const json::value* find(std::string_view name) {
    if (object_ == nullptr) return nullptr;
    const json::value* value = object_->if_contains(name);
    if (value == nullptr) set_error(fmt::format("{} has no '{}'", where_, name));
    return value;
  }

  const json::object* object_;
  std::string where_;
  std::string error_;
};

// The readers below give the error's text, empty if there is none.
std::string read(const json::value& value, const std::string& where, KernelInfo& kernel) {
  Members members(value, where, {"lds_bytes", "name", "private_bytes", "sgprs", "sgpr_spills", "vgpr_spills", "vgprs"});
  kernel.lds_bytes = members.number("lds_bytes");
  kernel.name = members.text("name");
  kernel.private_bytes = members.number("private_bytes");
  kernel.sgprs = members.number32("sgprs");
  kernel.sgpr_spills = members.number32("sgpr_spills");
  kernel.vgpr_spills = members.number32("vgpr_spills");
  kernel.vgprs = members.number32("vgprs");
  return members.error();
}

std::string read(const json::value& value, const std::string& where, TargetInfo& target) {
  Members members(value, where, {"base", "clang_version", "file", "kernels", "scratch_bytes", "target"});
  target.base = members.text("base");
  target.clang_version = members.text("clang_version");
  target.file = members.text("file");
  members.elements("kernels", [&](const json::value& element, const std::string& place) {
    return read(element, place, target.kernels.emplace_back());
  });
  target.scratch_bytes = members.number("scratch_bytes");
  target.target = members.text("target");
  if (target.target.empty()) members.set_error(fmt::format("{} has an empty 'target'", where));
  return members.error();
}

std::string read(const json::value& value, const std::string& where, VariantInfo& variant) {
  Members members(value, where, {"machine", "targets"});
  variant.machine = members.text("machine");
  if (variant.machine.empty() || variant.machine.find('/') != std::string::npos) {
    members.set_error(fmt::format("'machine' of {} is '{}', which names no folder", where, variant.machine));
  }
  std::set<std::string> seen;
  members.elements("targets", [&](const json::value& element, const std::string& place) {
    TargetInfo& target = variant.targets.emplace_back();
    std::string error = read(element, place, target);
    if (error.empty() && !seen.insert(target.target).second)
      error = fmt::format("{} repeats '{}'", place, target.target);
    return error;
  });
  for (const TargetInfo& target : variant.targets) {
    const auto base = std::ranges::find(variant.targets, target.base, &TargetInfo::target);
    if (!target.base.empty() && (base == variant.targets.end() || !base->base.empty()))
      members.set_error(fmt::format("the base '{}' of target '{}' is no target of {} with all entry points",
                                    target.base, target.target, where));
  }
  return members.error();
}

}  // namespace

std::string serialize(const Manifest& manifest) {
  json::object object;
  object["lock_hash"] = text_value(manifest.lock_hash);
  object["model_name"] = text_value(manifest.model_name);
  object["model_sha256"] = text_value(manifest.model_sha256);
  object["producer"] = text_value(manifest.producer);
  object["source_hash"] = text_value(manifest.source_hash);
  json::array variants;
  for (const VariantInfo& variant : manifest.variants) variants.push_back(to_json(variant));
  object["variants"] = std::move(variants);
  object["version"] = manifest_version;
  return json::serialize(object) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text, std::string_view what) {
  boost::system::error_code code;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), code);
  if (code) return fail(ErrorKind::invalid, fmt::format("{}: the manifest is not JSON: {}", what, code.message()));

  // A newer version may have other members: say so before anything else.
  if (const json::object* object = value.if_object()) {
    const json::value* version = object->if_contains("version");
    if (version == nullptr || !version->is_int64() || version->get_int64() != int64_t{manifest_version}) {
      return fail(ErrorKind::invalid,
                  fmt::format("{}: the manifest's version is {}, expected {}", what,
                              version == nullptr ? "missing" : json::serialize(*version), manifest_version));
    }
  }
  Manifest manifest;
  Members members(value, "the manifest",
                  {"lock_hash", "model_name", "model_sha256", "producer", "source_hash", "variants", "version"});
  manifest.lock_hash = members.text("lock_hash");
  manifest.model_name = members.text("model_name");
  manifest.model_sha256 = members.text("model_sha256");
  manifest.producer = members.text("producer");
  manifest.source_hash = members.text("source_hash");
  std::set<std::string> seen;
  members.elements("variants", [&](const json::value& element, const std::string& place) {
    VariantInfo& variant = manifest.variants.emplace_back();
    std::string error = read(element, place, variant);
    if (error.empty() && !seen.insert(variant.machine).second)
      error = fmt::format("{} repeats '{}'", place, variant.machine);
    return error;
  });
  if (!members.error().empty()) return fail(ErrorKind::invalid, fmt::format("{}: {}", what, members.error()));
  return manifest;
}

}  // namespace low
