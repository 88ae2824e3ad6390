/* File types of which each rank has one, without a byte in common. */
#ifndef DEAL_H
#define DEAL_H

#include "random_type.h"

/* The type of rank `r`. Called with the same state of the same random numbers for each rank; it may select nothing. */
struct type *dealt(const struct wish *wish, int r);

#endif
