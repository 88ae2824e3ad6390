/* What the programs that map files share. They are C and C++. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <svmio.h>

/* Ends the program unless something holds. */
#define DEMAND(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s does not hold; svmio said: %s\n", __FILE__, __LINE__, #condition,     \
                    svm_error());                                                                            \
            exit(EXIT_FAILURE);                                                                              \
        }                                                                                                    \
    } while (0)

/* Ends the program unless a call succeeds. */
#define SUCCEED(call) DEMAND((call) == SVM_SUCCESS)

/* Ends the program unless a call is refused with a status, and with a text that has some words. */
#define REFUSED(call, status, words)                                                                         \
    do {                                                                                                     \
        DEMAND((call) == (status));                                                                          \
        DEMAND(strstr(svm_error(), words) != NULL);                                                          \
        DEMAND(svm_strerror(status)[0] != '\0');                                                             \
    } while (0)

#endif
