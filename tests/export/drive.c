/* Takes the steps of a file that export_models wrote, by the exported library, and compares the
 * bytes of all results; writes and reads checkpoints; and misuses each function:
 *
 *   drive STEPS CHECKPOINT FOLDER      C99 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

static FILE* file;

static int64_t number(void) {
  int64_t value;
  if (fread(&value, sizeof value, 1, file) != 1) exit(2);
  return value;
}

struct array {
  void* data;
  size_t bytes;
};

static struct array array(void) {
  struct array read;
  read.bytes = (size_t)number();
  read.data = malloc(read.bytes + 1);
  if (fread(read.data, 1, read.bytes, file) != read.bytes) exit(2);
  return read;
}

static void require(net* of, int code) {
  if (code == 0) return;
  printf("code %d: %s\n", code, net_error(of));
  exit(1);
}

static void expect(int line, const net* of, int code, int expected, const char* words) {
  const char* said = of == NULL || expected == 0 ? "" : net_error(of);
  if (code == expected && strstr(said, words) != NULL) return;
  printf("line %d: code %d, and not %d: %s\n", line, code, expected, said);
  exit(1);
}
#define EXPECT(of, call, expected, words) expect(__LINE__, of, call, expected, words)

static struct array whole(const char* name) {
  struct array read = {NULL, 0};
  FILE* in = fopen(name, "rb");
  if (in == NULL) exit(2);
  fseek(in, 0, SEEK_END);
  read.bytes = (size_t)ftell(in);
  read.data = malloc(read.bytes + 1);
  rewind(in);
  if (fread(read.data, 1, read.bytes, in) != read.bytes) exit(2);
  fclose(in);
  return read;
}

static void put(const char* name, const void* data, size_t bytes) {
  FILE* out = fopen(name, "wb");
  if (out == NULL || fwrite(data, 1, bytes, out) != bytes || fclose(out) != 0) exit(2);
}

/* All that is kept, as one array. */
static struct array kept(net* of, const size_t* sizes, int64_t storages) {
  struct array all = {NULL, 0};
  size_t at = 0;
  for (int64_t i = 0; i < storages; ++i) all.bytes += sizes[i];
  all.data = malloc(all.bytes + 1);
  for (int64_t i = 0; i < storages; ++i) {
    require(of, net_get(of, (int)i, (char*)all.data + at, sizes[i]));
    at += sizes[i];
  }
  return all;
}

static void check_checkpoints(net* of, const char* checkpoint, const char* folder,
                              const size_t* sizes, int64_t storages) {
  char name[4096];
  snprintf(name, sizeof name, "%s/saved", folder);
  require(of, net_save(of, name));
  const struct array saved = whole(name), expected = whole(checkpoint);
  if (saved.bytes != expected.bytes || memcmp(saved.data, expected.data, saved.bytes) != 0) {
    printf("net_save writes another file than Metronome\n");
    exit(1);
  }
  const struct array before = kept(of, sizes, storages);
  char* bytes = saved.data;
  put(name, bytes, saved.bytes - 1);
  EXPECT(of, net_load(of, name), NET_WRONG_FILE, "is no whole checkpoint");
  put(name, bytes, 5);
  EXPECT(of, net_load(of, name), NET_WRONG_FILE, "is no whole checkpoint");
  bytes[saved.bytes - 1] ^= 1;
  put(name, bytes, saved.bytes);
  EXPECT(of, net_load(of, name), NET_WRONG_FILE, "is damaged");
  bytes[saved.bytes - 1] ^= 1;
  char* version = strstr(bytes + 8, "metronome checkpoint");
  version[0] = 'M';
  put(name, bytes, saved.bytes);
  EXPECT(of, net_load(of, name), NET_WRONG_FILE, "is no checkpoint of Metronome");
  version[0] = 'm';
  char* tensor = strstr(bytes + 8, "\":{\"data_offsets\"");
  tensor[-1] ^= 1;
  put(name, bytes, saved.bytes);
  EXPECT(of, net_load(of, name), NET_WRONG_FILE, "is of another model: it has \"");
  tensor[-1] ^= 1;
  char* type = strstr(bytes + 8, "\"dtype\":\"");
  type[9] ^= 1;
  put(name, bytes, saved.bytes);
  EXPECT(of, net_load(of, name), NET_WRONG_FILE, "is of another model: it has in another type \"");
  type[9] ^= 1;
  EXPECT(of, net_load(of, "/nowhere/file"), NET_WRONG_FILE, "\"/nowhere/file\" cannot be opened");
  EXPECT(of, net_save(of, "/nowhere/file"), NET_WRONG_FILE, "\"/nowhere/file\" cannot be written");
  EXPECT(of, net_load(of, NULL), NET_NULL, "the file's name is NULL");
  EXPECT(of, net_save(of, NULL), NET_NULL, "the file's name is NULL");
  const struct array after = kept(of, sizes, storages);
  if (memcmp(before.data, after.data, before.bytes) != 0) {
    printf("a file that was refused has changed something\n");
    exit(1);
  }
  free(before.data), free(after.data), free(saved.data), free(expected.data);
}

/* An optimizer refuses the numbers that it would refuse when it is declared. */
static void check_limits(net* of) {
#ifdef DRIVES_SETTABLE
  double rate = -1;
  const int at = NET_STORAGE_OPTIMIZER_LEARNING_RATE, norm = NET_STORAGE_OPTIMIZER_CLIP_NORM;
  EXPECT(of, net_set(of, at, &rate, sizeof rate), NET_WRONG_VALUE,
         "net_set: \"optimizer/learning_rate\" must be finite and at least 0");
  rate = 0;
  EXPECT(of, net_set(of, norm, &rate, sizeof rate), NET_WRONG_VALUE,
         "net_set: \"optimizer/clip_norm\" must be finite and above 0");
  EXPECT(of, net_get(of, at, &rate, sizeof rate), NET_OK, "");
  if (rate != 1e-3) exit(1);
  rate = 0;
  EXPECT(of, net_set(of, at, &rate, sizeof rate), NET_OK, "");
  rate = 1e-3;
  EXPECT(of, net_set(of, at, &rate, sizeof rate), NET_OK, "");
#endif
  (void)of;
}

/* A second instance, over memory of ours, goes on from the checkpoint of the first. */
static void check_second(net* first, const char* checkpoint, const struct array* fed,
                         int64_t inputs, const size_t* sizes, int64_t storages) {
  const size_t bytes = net_memory_bytes();
  char* memory = malloc(bytes + 128);
  char* aligned = memory + (64 - (uintptr_t)memory % 64) % 64;
  net* of = NULL;
  EXPECT(NULL, net_create(NULL, aligned, bytes), NET_NULL, "");
  EXPECT(NULL, net_create(&of, aligned, bytes - 1), NET_WRONG_BYTES, "");
  EXPECT(NULL, net_create(&of, aligned + 8, bytes), NET_WRONG_BYTES, "");
  if (of != NULL) exit(1);
  EXPECT(NULL, net_create(&of, aligned, bytes), NET_OK, "");
  if (inputs > 0) {
    EXPECT(of, net_train(of), NET_TOO_EARLY, "was never fed; call net_feed first");
    EXPECT(of, net_feed(of, 0, NULL, fed[0].bytes), NET_NULL, "is NULL");
    EXPECT(of, net_feed(of, 0, fed[0].data, fed[0].bytes + 1), NET_WRONG_BYTES, "bytes, and not");
  }
  char some[8] = {0};
  EXPECT(of, net_feed(of, (int)inputs, some, 8), NET_WRONG_VALUE, "there is no array");
  EXPECT(of, net_feed(of, -1, some, 8), NET_WRONG_VALUE, "there is no array");
  EXPECT(of, net_get(of, 0, NULL, sizes[0]), NET_NULL, "is NULL");
  EXPECT(of, net_set(of, 0, some, sizes[0] + 1), NET_WRONG_BYTES, "takes");
  check_limits(of);
  require(of, net_load(of, checkpoint));
  for (int64_t i = 0; i < inputs; ++i) {
    require(of, net_feed(of, (int)i, fed[i].data, fed[i].bytes));
    require(first, net_feed(first, (int)i, fed[i].data, fed[i].bytes));
  }
  require(of, net_train(of));
  require(first, net_train(first));
  const struct array a = kept(first, sizes, storages), b = kept(of, sizes, storages);
  if (memcmp(a.data, b.data, a.bytes) != 0) {
    printf("a step from the checkpoint gives other numbers\n");
    exit(1);
  }
  free(a.data), free(b.data);
  require(of, net_reset(of));
  net_destroy(of);
  free(memory);
  EXPECT(NULL, net_train(NULL), NET_NULL, "");
  EXPECT(NULL, net_reset(NULL), NET_NULL, "");
  net_destroy(NULL);
  if (strcmp(net_error(NULL), "the instance is NULL") != 0 || *net_fault(NULL) != 0) exit(1);
}

int main(int argc, char** argv) {
  if (argc != 4 || (file = fopen(argv[1], "rb")) == NULL) return 2;
  net* of = NULL;
  if (net_create(&of, NULL, 0) != 0) return 2;
  const int64_t batches = number(), inputs = number();
  struct array* fed = calloc((size_t)(batches * inputs + 1), sizeof *fed);
  for (int64_t i = 0; i < batches * inputs; ++i) fed[i] = array();
  const int64_t steps = number();
  int64_t compared = 0, apart = 0;
  for (int64_t k = 0; k < steps; ++k) {
    for (int64_t i = 0; i < inputs; ++i) {
      const struct array* each = &fed[k % batches * inputs + i];
      require(of, net_feed(of, (int)i, each->data, each->bytes));
    }
    require(of, number() ? net_evaluate(of) : net_train(of));
    for (int64_t i = 0, outputs = number(); i < outputs; ++i) {
      const struct array expected = array();
      void* found = malloc(expected.bytes + 1);
      require(of, net_read(of, (int)i, found, expected.bytes));
      ++compared;
      if (memcmp(found, expected.data, expected.bytes) != 0) {
        if (++apart == 1) printf("step %d, output %d: other bytes\n", (int)k, (int)i);
      }
      free(found);
      free(expected.data);
    }
  }
  const int64_t storages = number();
  size_t* sizes = calloc((size_t)storages, sizeof *sizes);
  for (int64_t i = 0; i < storages; ++i) {
    const struct array expected = array();
    sizes[i] = expected.bytes;
    void* found = malloc(expected.bytes + 1);
    require(of, net_get(of, (int)i, found, expected.bytes));
    ++compared;
    if (memcmp(found, expected.data, expected.bytes) != 0) {
      if (++apart == 1) printf("storage %d: other bytes\n", (int)i);
    }
    free(found);
    free(expected.data);
  }
  if (*net_fault(of) != 0) {
    printf("a fault\n");
    return 1;
  }
  check_checkpoints(of, argv[2], argv[3], sizes, storages);
  check_second(of, argv[2], fed, inputs, sizes, storages);
  free(sizes);
  net_destroy(of);
  for (int64_t i = 0; i < batches * inputs; ++i) free(fed[i].data);
  free(fed);
  fclose(file);
  printf("%d arrays, %d apart\n", (int)compared, (int)apart);
  return apart != 0;
}
