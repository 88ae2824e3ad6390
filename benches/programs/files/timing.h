/* Taking times, and telling them. */
#ifndef TIMING_H
#define TIMING_H

#include <stdint.h>

/* Waits for all ranks and leaves the processor to others meanwhile. */
void calm_barrier(void);

/* Waits for all ranks and gives the time. */
double started(void);

/* The longest of all ranks' times, on all of them. */
double longest(double own);

/* The longest time of all ranks since `since`, on all of them. */
double longest_since(double since);

/* Rank 0 prints the longest time of all ranks since `since`. */
void tell_time(const char *what, double since);

/* Rank 0 prints a number. */
void tell(const char *what, double value);

/* Rank 0 prints a time, and how fast so many bytes were moved in it. */
void tell_moved(const char *what, double seconds, int64_t bytes);

/* Rank 0 prints how many words were not as they should be, on all ranks together. */
void tell_wrong(long wrong);

/* The times of something that is done again and again: `count` of these, after `done` passes in all. */
enum { MOST_PASSES = 64 };
struct passes {
    int count, wanted, done, untimed;
    double since, first, total, seconds[MOST_PASSES];
};

/* None yet of as many as are wanted. */
struct passes passes_of(int64_t wanted);

/* The same of what is done once more before it, untimed, so that neither who does it often nor who is slow and does it
 * once has only a first time to tell; but where one is wanted, that is the first. */
struct passes repeated(int64_t wanted);

/* Whether to do it once more: not when it has taken more than a second in all, but an odd number of times. The same on
 * all ranks. */
int is_wanting(const struct passes *passes);

/* Begins one with all ranks. */
void begin_pass(struct passes *passes);

/* Ends it: it took what it took the rank that needed longest. */
void end_pass(struct passes *passes);

/* The median of their times; of an even number, the mean of both in the middle. */
double median_of(const struct passes *passes);

#endif
