/* A page of memory that is missing until it is given back: who needs it waits, and one can see that somebody does. */
#ifndef HELD_PAGE_H
#define HELD_PAGE_H

#include <stddef.h>

/* New memory of so many bytes; ends the job where userfaultfd is not allowed. The page in its middle can be held. Only
   the thread that calls this first is one that must not wait for a page: it would be the whole program that waits. */
char *memory_with_page(size_t bytes);

/* Takes the page in the middle of `memory`, of so many bytes, away; what is in it comes again with it. */
void hold_page(char *memory, size_t bytes);

/* Waits until another thread, or process, waits for the page that is held. */
void wait_until_page_is_needed(void);

/* Gives it back. */
void give_page_back(void);

#endif
