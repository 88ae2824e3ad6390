
/* Threads that look after each barrier whether all have come. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 300u

static hybrid_memory memory;
static atomic_uint come[hybrid_RANKS];

static void *body(void *argument)
{
    unsigned rank = (unsigned)(uintptr_t)argument, chance = rank + 1;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        chance = chance * 1664525u + 1013904223u;
        if (chance >> 30 == 0)
            sched_yield();
        atomic_store_explicit(&come[rank], round, memory_order_relaxed);
        hybrid_wait(&memory, rank);
        for (unsigned other = 0; other < hybrid_RANKS; other++) {
            if (atomic_load_explicit(&come[other], memory_order_relaxed) < round) {
                fprintf(stderr, "rank %u left before rank %u came\n", rank, other);
                exit(1);
            }
        }
    }
    return 0;
}

int main(void)
{
    pthread_t threads[hybrid_RANKS];
    for (uintptr_t rank = 0; rank < hybrid_RANKS; rank++)
        if (pthread_create(&threads[rank], 0, body, (void *)rank))
            return 2;
    for (unsigned rank = 0; rank < hybrid_RANKS; rank++)
        pthread_join(threads[rank], 0);
    return 0;
}
