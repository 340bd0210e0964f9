// For programs that take in models of PyTorch's.
#pragma once

#include "executor/import/program.h"  // program: a file of torch.export.save as a layer
