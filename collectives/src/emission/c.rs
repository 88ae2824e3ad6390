//! The barrier in C.

use std::fmt::{Error, Write};

use crate::emission::{Action, Program, write_lines};

const HEAD: &str = r"/* A barrier of {ranks} ranks in {steps} steps, written by svmio.
 *
 * All ranks share a {prefix}_memory that is zero at first. Each calls {prefix}_wait with its own number, from 0 on;
 * no call returns before all ranks have made theirs. */

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#define {prefix}_RANKS {ranks}

/* How often to look before other threads are let run; 0 where there are more ranks than cores. */
#ifndef {prefix}_SPINS
#define {prefix}_SPINS 64
#endif

typedef struct {
    _Alignas(64) atomic_uint number;
} {prefix}_line;

typedef struct {
    {prefix}_line entered[{ranks}];
    {prefix}_line arrived[{flags}];
} {prefix}_memory;

static inline void {prefix}_set({prefix}_memory *memory, unsigned flag, unsigned number)
{
    atomic_store_explicit(&memory->arrived[flag].number, number, memory_order_release);
}

static inline void {prefix}_await({prefix}_memory *memory, unsigned flag, unsigned number)
{
    unsigned looks = 0;
    /* The difference tells which is later even when the numbers begin anew. */
    while ((int)(atomic_load_explicit(&memory->arrived[flag].number, memory_order_acquire) - number) < 0) {
        if (++looks > {prefix}_SPINS + 10000u) {
            struct timespec pause = {0, 50000};
            nanosleep(&pause, 0);
        } else if (looks > {prefix}_SPINS) {
            sched_yield();
        }
    }
}

void {prefix}_wait({prefix}_memory *memory, unsigned rank)
{
    unsigned number = 1 + atomic_load_explicit(&memory->entered[rank].number, memory_order_relaxed);
    atomic_store_explicit(&memory->entered[rank].number, number, memory_order_relaxed);
    switch (rank) {
";

const TAIL: &str = "    default:
        break;
    }
}
";

pub(super) fn write(source: &mut String, program: &Program, prefix: &str) -> Result<(), Error> {
    program.fill(source, HEAD, prefix);
    for (rank, actions) in program.parts.iter().enumerate() {
        writeln!(source, "    case {rank}:")?;
        write_lines(source, actions, |action| match action {
            Action::Set(flag, to) => format!("        {prefix}_set(memory, {flag}, number); /* rank {to} */"),
            Action::Await(flag, from) => {
                format!("        {prefix}_await(memory, {flag}, number); /* rank {from} */")
            }
        })?;
        writeln!(source, "        break;")?;
    }
    source.push_str(TAIL);
    Ok(())
}
