/* Trains an exported soft actor-critic on transitions of a task in C, and asks it for actions:
 *
 *   ./metronome export sac policy --name policy
 *   cmake -S policy -B policy/build && cmake --build policy/build
 *   gcc -c -std=c99 -Ipolicy docs/policy.c -o policy.o
 *   g++ policy.o policy/build/libpolicy.a -Wl,--gc-sections -o policy.out && ./policy.out */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

enum { kRows = 4, kSeen = 11, kActions = 3, kSteps = 400 };

static float uniform(void) { return 2.0f * (float)rand() / (float)RAND_MAX - 1.0f; }

static void fill(float* numbers, int count) {
  for (int i = 0; i < count; ++i) numbers[i] = uniform();
}

/* Ends the program where a call did not succeed. */
static void require(policy* of, int code) {
  if (code == POLICY_OK) return;
  fprintf(stderr, "policy: code %d: %s\n", code, policy_error(of));
  exit(1);
}

int main(void) {
  policy* of = NULL;
  if (policy_create(&of, NULL, 0) != POLICY_OK) return 1;
  float state[kRows * kSeen], next[kRows * kSeen], action[kRows * kActions], reward[kRows];
  float noise[kRows * kActions], next_noise[kRows * kActions], loss = 0;
  int64_t done[kRows] = {0};
  for (int step = 0; step < kSteps; ++step) {
    fill(state, kRows * kSeen), fill(action, kRows * kActions);
    fill(noise, kRows * kActions), fill(next_noise, kRows * kActions);
    memcpy(next, state, sizeof next);
    for (int row = 0; row < kRows; ++row) { /* the nearer the action is to the state, the better */
      reward[row] = 0;
      for (int i = 0; i < kActions; ++i) {
        const float apart = action[row * kActions + i] - state[row * kSeen + i];
        reward[row] -= apart * apart;
      }
    }
    require(of, policy_feed(of, POLICY_INPUT_STATE, state, sizeof state));
    require(of, policy_feed(of, POLICY_INPUT_ACTION, action, sizeof action));
    require(of, policy_feed(of, POLICY_INPUT_REWARD, reward, sizeof reward));
    require(of, policy_feed(of, POLICY_INPUT_NEXT, next, sizeof next));
    require(of, policy_feed(of, POLICY_INPUT_DONE, done, sizeof done));
    require(of, policy_feed(of, POLICY_INPUT_NOISE, noise, sizeof noise));
    require(of, policy_feed(of, POLICY_INPUT_NEXT_NOISE, next_noise, sizeof next_noise));
    require(of, policy_train(of));
    require(of, policy_read(of, POLICY_OUTPUT_LOSS_CRITICS, &loss, sizeof loss));
    if (step % 100 == 99) printf("step %d: loss of the critics %.3f\n", step + 1, loss);
  }
  require(of, policy_evaluate(of));
  require(of, policy_read(of, POLICY_OUTPUT_ANSWER, action, sizeof action));
  printf("action %.3f %.3f %.3f\n", action[0], action[1], action[2]);
  require(of, policy_save(of, "policy.safetensors"));
  policy_destroy(of);
  return 0;
}
