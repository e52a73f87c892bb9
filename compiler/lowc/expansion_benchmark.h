// How long the expansion of a selection attempt's finalists takes, with and without its caches.
#pragma once

#include "compiler/low/expansion_caches.h"
#include "compiler/lowc/commands.h"
#include "compiler/lowc/json.h"
#include "runtime/base/error.h"

namespace low::lowc {

// `lowc compile MODEL --benchmark-expansion [--benchmark-expansion-uncached]`: a line for each finalist and mode, or
// JSON. What is timed is expand, simplify and cost of the finalists, one after the other on one thread; search,
// placement, scheduling and the graph's passes are not. The finalists are those of the search or of --plan. Each run is
// a selection attempt with caches of its own; with both flags, an attempt with caches and one without take turns.
Result<void> benchmark_expansion(const CompileCommand& command);

// "NAME": {"entries": …, "hits": …, "misses": …}
void write_cache(std::string_view name, const CacheStatistics& statistics, JsonWriter& json);

}  // namespace low::lowc
