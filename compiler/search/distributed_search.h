// The search for machines without global memory.
#pragma once

#include "compiler/search/search.h"

namespace low {

// As search(), which calls it; options are in range. ErrorKind::unsupported naming machine, need and capacity when no
// plan fits a tile's memory.
Result<SearchResult> search_distributed(const Graph& graph, const Machine& machine, const SearchOptions& options,
                                        ThreadPool& pool);

}  // namespace low
