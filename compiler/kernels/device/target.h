// What kernels ask of a target: its vectors and their instructions, sizes of blocks, a clock. An emitted source has the
// header of its kind of target in place of this one.
#pragma once

#include "compiler/kernels/device/target_host.h"
