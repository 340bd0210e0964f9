// c10d's headers include it, and use nothing of it.
#pragma once
