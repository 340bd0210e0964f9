#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include "tests/doctest.h"

namespace {

struct Outcome {
  int status = -1;
  std::string out;    ///< standard output
  std::string error;  ///< standard error
};

std::string read(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string temporary(const std::string& name) {
  return fmt::format("{}/{}", std::getenv("TEST_TMPDIR"), name);
}

// The warnings go that kernels are timed under load: they are of other programs.
std::string without_load(std::string text) {
  constexpr std::string_view kWarning = "[metronome] kernels are timed while other programs take ";
  std::size_t begin = 0;
  while ((begin = text.find(kWarning)) != std::string::npos) {
    text.erase(begin, text.find('\n', begin) + 1 - begin);
  }
  return text;
}

Outcome run(const std::string& command) {
  const std::string out = temporary("out"), error = temporary("error");
  const int status = std::system(fmt::format("{} >{} 2>{}", command, out, error).c_str());
  return {WEXITSTATUS(status), read(out), without_load(read(error))};
}

// Runs the program with arguments; `environment` stands before it: "NAME=VALUE", "env -u NAME".
Outcome metronome(const std::string& arguments, const std::string& environment = "") {
  return run(fmt::format("{} benchmarks/metronome {}", environment, arguments));
}

// The same program, whose GPU is made of the host, without groups, which would be compiled.
Outcome metronome_on_host(const std::string& arguments) {
  return run("METRONOME_WITHOUT=loosen,fuse tests/on_host/metronome " + arguments);
}

// How many digits were right at the end.
int rights(const Outcome& outcome) {
  const std::size_t at = outcome.out.rfind("% right (");
  REQUIRE(at != std::string::npos);
  return std::stoi(outcome.out.substr(at + 9));
}

// The whole of what a wrong command line is answered with.
void refuses(const std::string& arguments, const std::string& message) {
  const Outcome outcome = metronome(arguments);
  CAPTURE(arguments);
  CHECK(outcome.status == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.error == "metronome: " + message + "\n");
}

TEST_CASE("the program of train alone says what the whole one does") {
  for (const std::string arguments :
       {"train --help", "train", "train letters", "train digits --epochs 0"}) {
    CAPTURE(arguments);
    const Outcome whole = metronome(arguments), alone = run("models/train " + arguments);
    CHECK(alone.status == whole.status);
    CHECK(alone.out == whole.out);
    CHECK(alone.error == whole.error);
  }
}

TEST_CASE("a wrong argument is answered with the right ones, and status 2") {
  refuses("", "say what to do: train, compare, plan, export or --help.");
  refuses("fly", "there is no \"fly\": say train, compare, plan, export or --help.");
  refuses("train", "say what to train: digits, mnist, text or pendulum.");
  refuses("train letters", "model: there is no \"letters\": say digits, mnist, text or pendulum.");
  refuses(
      "train digits --epoch 3",
      "train knows no \"--epoch\": it takes --help, --epochs, --batch, --seed, --lr, --checkpoint, "
      "--resume, --log, --watch, --trace, --device, --threads, --ranks, --no-save or "
      "--no-compare.");
  refuses("train digits --epochs 0", "--epochs: \"0\" is no whole number from 1 to 100000.");
  refuses("train digits --batch 1", "--batch: \"1\" is no whole number from 2 to 100000.");
  refuses("train digits --device gpu", "--device: there is no \"gpu\": say cpu or cuda.");
  refuses("train digits --lr -1", "--lr: \"-1\" is no number above zero.");
  refuses("compare mpl",
          "models: there is no \"mpl\": say mlp, residual_tower, gated_routing, iterative_refine, "
          "feedback_fixed, feedback_adaptive, routed_sparse, convnet, conv_autoenc, gru_seq, "
          "lstm_seq, transformer, gan, vae, sac or ppo.");
  refuses("compare --scale huge", "--scale: there is no \"huge\": say small, medium or full.");
  refuses("compare --threads two", "--threads: \"two\" is no whole number from 1 to 1024.");
  refuses("compare --device gpu", "--device: there is no \"gpu\": say cpu or cuda.");
  refuses("compare --tf32", "--tf32 needs --device cuda: a CPU has no TF32.");
  refuses("compare --explain --device cuda",
          "--explain needs --device cpu: with cuda the table itself has the floor.");
  refuses("compare --explain --json compare.json",
          "--json needs the comparison with eager: leave out --explain.");
  refuses("compare mlp --check --trace trace.json",
          "--trace needs the comparison with eager: leave out --explain and --check.");
  refuses("compare --trace trace.json", "--trace is of one model, not of all: name that one.");
  refuses("compare mlp gru_seq --trace trace.json",
          "--trace is of one model, not of 2: name that one.");
  for (const char* option : {"--explain", "--check", "--trace trace.json", "--device cuda"}) {
    refuses(std::string("compare mlp --evaluate ") + option,
            "--evaluate times inference, on a CPU: leave out --explain, --check, --trace and "
            "--device.");
  }
  refuses("compare --rounds 3", "--rounds: \"3\" is no whole number from 7 to 10000.");
  refuses("plan",
          "say which model to plan: mlp, residual_tower, gated_routing, iterative_refine, "
          "feedback_fixed, feedback_adaptive, routed_sparse, convnet, conv_autoenc, gru_seq, "
          "lstm_seq, transformer, gan, vae, sac, ppo, digits, mnist, text or pendulum.");
  refuses(
      "plan towers",
      "model: there is no \"towers\": say mlp, residual_tower, gated_routing, iterative_refine, "
      "feedback_fixed, feedback_adaptive, routed_sparse, convnet, conv_autoenc, gru_seq, lstm_seq, "
      "transformer, gan, vae, sac, ppo, digits, mnist, text or pendulum.");
  refuses("export mlp",
          "say which model to export, and the folder or the file.onnx that is to be made: mlp, "
          "residual_tower, gated_routing, iterative_refine, feedback_fixed, feedback_adaptive, "
          "routed_sparse, "
          "convnet, conv_autoenc, gru_seq, lstm_seq, transformer, gan, vae, sac, ppo, digits, "
          "mnist, text or pendulum.");
  refuses("export mlp mlp.onnx --name net",
          "--name is of a library: an ONNX model has the graph's name.");
  refuses("export mlp mlp.onnx --beside",
          "--beside is of a library: an ONNX model has its weights.");
  refuses("export mlp mlp --rows 4", "--rows is of an ONNX model: a library trains a batch.");
  refuses("plan mlp --device gpu", "--device: there is no \"gpu\": say cpu or cuda.");
}

TEST_CASE("--help says what there is, and status 0") {
  for (const std::string verb : {"", "train", "compare", "plan", "export"}) {
    const Outcome outcome = metronome(verb + " --help");
    CAPTURE(verb);
    CHECK(outcome.status == 0);
    CHECK(outcome.error == "");
    CHECK(outcome.out.find("Usage: metronome") != std::string::npos);
  }
  const std::string compare = metronome("compare --help").out;
  for (const char* option : {"--scale", "--device", "--explain", "--evaluate", "--tf32",
                             "--threads", "--rounds", "--json"}) {
    CHECK(compare.find(option) != std::string::npos);
  }
}

TEST_CASE("what cannot be read or written is one message, and status 1") {
  const Outcome unset = metronome("train digits --no-save", "env -u METRONOME_DIGITS");
  CHECK(unset.status == 1);
  CHECK(unset.error ==
        "metronome: METRONOME_DIGITS is not set: start through ./metronome, which fetches the "
        "digits, or let it name their CSV file\n");
  CHECK(metronome("train mnist --no-save", "env -u METRONOME_MNIST").error ==
        "metronome: METRONOME_MNIST is not set: start through ./metronome, which fetches the "
        "digits, or let it name their CSV file\n");
  CHECK(metronome("train text --no-save", "env -u METRONOME_TEXT").error ==
        "metronome: METRONOME_TEXT is not set: start through ./metronome, which fetches the text, "
        "or let it name a folder of files of fortunes\n");
  const Outcome unfetched = metronome("train text --no-save", "METRONOME_TEXT=");
  CHECK(unfetched.status == 1);
  CHECK(unfetched.error ==
        "metronome: METRONOME_TEXT is empty, as ./metronome could not fetch the text: run "
        "`./metronome setup` again, or let it name a folder of files of fortunes\n");
  const Outcome missing = metronome("train digits --no-save", "METRONOME_DIGITS=/no/digits.csv");
  CHECK(missing.status == 1);
  CHECK(missing.error == "metronome: /no/digits.csv: the digits cannot be opened\n");
  const Outcome unwritable = metronome("train digits --checkpoint /no/digits.safetensors");
  CHECK(unwritable.status == 1);
  CHECK(unwritable.error ==
        "metronome: /no/digits.safetensors: cannot be written: /no: No such file or directory\n");
}

TEST_CASE("a variable of the environment that makes no sense is one message with its value") {
  const auto refused = [](const std::string& variable, const std::string& why) {
    const Outcome outcome = metronome("plan mlp", variable);
    CAPTURE(variable);
    CHECK(outcome.status == 1);
    CHECK(outcome.out == "");
    CHECK(outcome.error == fmt::format("metronome: {}: {}\n", variable, why));
  };
  refused("METRONOME_LOG=loud",
          "no such level; give trace, debug, info, warn, error, critical or off");
  refused("METRONOME_ISA=sse", "no such instruction set; it is portable, avx2 or avx512");
  refused("METRONOME_DUMP=/no/folder",
          "/no/folder/mlp-train-0-for_mode.txt cannot be written; name a folder that exists");
}

TEST_CASE("a tuning file that cannot be kept is one warning with its name, and no mistake") {
  const Outcome outcome =
      metronome("plan mlp --threads 1", "METRONOME_TUNING=/proc/nowhere/tuning.json");
  CHECK(outcome.status == 0);
  CHECK(outcome.error ==
        "[metronome] kernel choices are not kept: /proc/nowhere/tuning.json: cannot be saved: "
        "No such file or directory\n");
}

TEST_CASE("a file name that is none is one message, and status 1") {
  for (const char* arguments : {"train digits --checkpoint ''", "plan mlp --dot ''"}) {
    const Outcome outcome = metronome(arguments);
    CAPTURE(arguments);
    CHECK(outcome.status == 1);
    CHECK(outcome.error == "metronome: \"\": cannot be written: it names no file\n");
  }
}

TEST_CASE("a batch that the digits do not fill is one message, and status 1") {
  const Outcome outcome = metronome("train digits --batch 2000 --no-save");
  CHECK(outcome.status == 1);
  CHECK(outcome.error == "metronome: a batch of 2000 digits, but there are 1437 to train on\n");
}

TEST_CASE("train saves a checkpoint that it resumes, and compares with eager") {
  const std::string first = temporary("first.safetensors"), last = temporary("last.safetensors");
  const std::string whole = temporary("whole.safetensors");
  // Choices that are timed under load are not kept, and another process may choose otherwise.
  const std::string fixed = "METRONOME_KERNELS=own";
  CHECK(metronome("train digits --epochs 2 --no-compare --checkpoint " + whole, fixed).status == 0);

  const Outcome trained = metronome("train digits --epochs 2 --checkpoint " + first, fixed);
  CHECK(trained.status == 0);
  CHECK(trained.error == "");
  for (const char* part : {"1437 digits to train on, 360 to test with", "epoch  2/2", "% right",
                           "saved   ", "beside libtorch's eager autograd", "planned takes"}) {
    CAPTURE(part);
    CHECK(trained.out.find(part) != std::string::npos);
  }
  CHECK(read(first) == read(whole));

  const Outcome resumed = metronome(
      fmt::format("train digits --epochs 2 --resume {} --checkpoint {}", first, last), fixed);
  CHECK(resumed.status == 0);
  CHECK(resumed.out.find("nothing left to train") != std::string::npos);
  CHECK(read(last) == read(first));

  const Outcome other =
      metronome(fmt::format("train digits --seed 5 --resume {} --checkpoint {}", first, last));
  CHECK(other.status == 1);
  CHECK(other.error ==
        fmt::format("metronome: {}: was trained with the seed 0, not 5: resume with --seed 0\n",
                    first));
}

TEST_CASE("train mnist trains, saves and compares, too") {
  const std::string file = temporary("mnist.safetensors");
  const Outcome trained = metronome("train mnist --epochs 1 --batch 256 --checkpoint " + file);
  CHECK(trained.status == 0);
  CHECK(trained.error == "");
  for (const char* part : {"4000 digits to train on, 1000 to test with", "epoch  1/1", "% right",
                           "saved   ", "beside libtorch's eager autograd", "planned takes"}) {
    CAPTURE(part);
    CHECK(trained.out.find(part) != std::string::npos);
  }
  const Outcome other = metronome("train digits --no-save --resume " + file);
  CHECK(other.status == 1);
  CHECK(other.error.starts_with("metronome: " + file + ": "));
}

TEST_CASE("plan shows the plan and writes the graph") {
  const std::string dot = temporary("mlp.dot");
  const Outcome outcome = metronome("plan mlp --print --dot " + dot);
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("mse_loss") != std::string::npos);
  CHECK(outcome.out.find("arena") != std::string::npos);
  CHECK(read(dot).starts_with("digraph"));
  CHECK(metronome("plan digits").status == 0);
  CHECK(metronome("plan mnist").status == 0);
}

TEST_CASE("export writes an ONNX model of a model or a task, of any rows or of some") {
  for (const std::string model : {"mlp", "digits", "mnist", "text"}) {
    const std::string file = temporary(model + ".onnx");
    const Outcome outcome = metronome("export " + model + " " + file);
    CAPTURE(model);
    CAPTURE(outcome.error);
    CHECK(outcome.status == 0);
    CHECK(outcome.out == "wrote " + file + "\n");
    const std::string any = read(file);
    CHECK(metronome("export " + model + " " + file + " --rows 4").status == 0);
    const std::string four = read(file);
    CHECK(any.find("metronome") != any.npos);
    const char* const name = model == "text" ? "bytes_1" : "_0\n";  // and the next dimension
    CHECK(any.find(name) != any.npos);
    CHECK(four.size() < any.size());
  }
  const Outcome draws = metronome("export pendulum " + temporary("pendulum.onnx"));
  CHECK(draws.status == 1);
  CHECK(draws.error.find("it draws at random") != std::string::npos);
}

TEST_CASE("export writes a library of a model or a task") {
  for (const std::string model : {"mlp", "digits", "mnist", "text", "pendulum"}) {
    for (const std::string evaluate : {"", " --evaluate"}) {
      const std::string folder = temporary(model + (evaluate.empty() ? "" : "_evaluates"));
      const Outcome outcome = metronome("export " + model + " " + folder + evaluate);
      CAPTURE(model + evaluate);
      CAPTURE(outcome.error);
      CHECK(outcome.status == 0);
      const std::string header = read(folder + "/" + model + ".h");
      CHECK((header.find(model + "_train(") == header.npos) == !evaluate.empty());
      CHECK(header.find(model + "_evaluate(") != header.npos);
    }
  }
}

TEST_CASE("plan says where a step's time goes") {
  for (const std::string model : {"mlp", "digits"}) {
    const Outcome outcome = metronome("plan " + model + " --profile --threads 1");
    CHECK(outcome.status == 0);
    CHECK(outcome.out.find(", 20 steps to train on 1 thread: ") != std::string::npos);
    CHECK(outcome.out.find("  forward\n") != std::string::npos);
    CHECK(outcome.out.find("  linear \"") != std::string::npos);
    CHECK(outcome.out.find("\na step whose loss is read takes ") != std::string::npos);
  }
}

// The kernels' microseconds, added up; each is told of once.
double total_in(const std::string& file) {
  const auto json = nlohmann::json::parse(read(file));
  std::set<std::string> names;
  double total = 0;
  for (const auto& kernel : json["times"]["kernels"]) {
    CHECK(names.insert(kernel["kernel"]).second);
    CHECK(kernel["microseconds"] >= 0);
    total += kernel["microseconds"].get<double>();
  }
  CHECK(names.size() > 10);
  return total;
}

TEST_CASE("plan writes the profile that it shows, whole") {
  const std::string file = temporary("profile.json");
  const Outcome outcome = metronome("plan mlp --profile --threads 1 --json " + file);
  CHECK(outcome.status == 0);
  CHECK(outcome.error == "");
  const bool under_load = nlohmann::json::parse(read(file))["times"]["under_load"];
  const std::string shown = fmt::format(
      "graph \"mlp\", 20 steps to train on 1 thread: {:.1f} us a step in kernels, each the median "
      "of its runs, by the host's clock{}\n",
      total_in(file), under_load ? ", under load" : "");
  CHECK_MESSAGE(outcome.out.find(shown) != std::string::npos, outcome.out);

  const Outcome unwritable = metronome("plan mlp --profile --json /no/profile.json");
  CHECK(unwritable.status == 1);
  CHECK(unwritable.out == "");
  CHECK(unwritable.error ==
        "metronome: /no/profile.json: cannot be written: /no: No such file or directory\n");
}

TEST_CASE("plan writes the plan as data, with times or without") {
  const std::string file = temporary("record.json");
  for (const char* more : {"", " --profile"}) {
    const Outcome outcome =
        metronome(fmt::format("plan digits --threads 1{} --json {}", more, file));
    CHECK(outcome.status == 0);
    const auto record = nlohmann::json::parse(read(file));
    CHECK(record["format"] == "metronome plan record");
    CHECK(record["report"]["graph"] == "digits");
    CHECK(record["report"]["plans"].size() == 2);
    CHECK(record["plans"].size() == 2);
    CHECK((record["times"]["steps"] > 0) == (*more != '\0'));
    CHECK(record["times"]["kernels"].empty() == (*more == '\0'));
  }
}

TEST_CASE("plan profiles a device's step, the executor's own kernels with it") {
  const std::string file = temporary("device.json");
  const Outcome outcome = metronome_on_host("plan mlp --device cuda --profile --json " + file);
  CHECK(outcome.status == 0);
  CHECK(outcome.error == "");
  const auto times = nlohmann::json::parse(read(file))["times"];
  const double idle = times["idle_microseconds"], overlap = times["overlap_microseconds"];
  CHECK(overlap > 0);
  const std::string shown = fmt::format(
      "graph \"mlp\", 5 steps to train on the host: {:.1f} us a step in kernels, each the median "
      "of its runs, by the device's records of the captured step: {:.1f} us from the first to the "
      "last, of which none runs for {:.1f} us; they overlap for {:.1f} us\n",
      total_in(file), total_in(file) + idle - overlap, idle, overlap);
  CHECK_MESSAGE(outcome.out.find(shown) != std::string::npos, outcome.out);
  CHECK(outcome.out.find("graph \"mlp\" on cuda_graph (") == 0);
  const auto kernels = times["kernels"];
  CHECK(kernels.front()["kernel"] == "load_inputs");
  CHECK(kernels.back()["kernel"] == "store_reads");
  for (const auto& kernel : kernels) {
    CHECK(kernel["microseconds"] > 0);
    CHECK(kernel["by"] == "the device's records of the captured step");
  }
}

TEST_CASE("a checkpoint of a CPU goes on on a device, and that of the device on a CPU") {
  const std::string first = temporary("cpu.safetensors"), file = temporary("device.safetensors");
  const auto arguments = [](int epochs, const std::string& more) {
    return fmt::format("train digits --batch 205 --no-compare --epochs {} {}", epochs, more);
  };
  CHECK(metronome(arguments(1, "--checkpoint " + first)).status == 0);

  const Outcome trained = metronome_on_host(
      arguments(2, fmt::format("--device cuda --resume {} --checkpoint {}", first, file)));
  CHECK(trained.status == 0);
  CHECK(trained.error == "");
  CHECK(trained.out.find("plan    cuda_graph (the host), 76682 parameters") != std::string::npos);
  CHECK(trained.out.find("epoch  2/2") != std::string::npos);
  CHECK(read(file) != read(first));

  const std::string resume = "--no-save --resume " + file;
  const Outcome tested = metronome(arguments(2, resume));
  CHECK(tested.status == 0);
  CHECK(tested.out.find("nothing left to train: 2 epochs are done") != std::string::npos);
  // Rounding may decide between two classes.
  CHECK(std::abs(rights(trained) - rights(tested)) <= 1);
  const Outcome resumed = metronome(arguments(3, resume));
  CHECK(resumed.status == 0);
  CHECK(resumed.out.find("epoch  3/3") != std::string::npos);
}

TEST_CASE("without a GPU, verbs on one say why in a line, the same, and status 3") {
  const Outcome outcome = metronome("compare --device cuda", "CUDA_VISIBLE_DEVICES=");
  CHECK(outcome.status == 3);
  CHECK(outcome.out == "");
  CHECK(outcome.error.starts_with("metronome: "));
  CHECK(std::count(outcome.error.begin(), outcome.error.end(), '\n') == 1);
  for (const char* more : {"", " --profile"}) {
    const Outcome plan =
        metronome(fmt::format("plan mlp --device cuda{}", more), "CUDA_VISIBLE_DEVICES=");
    CHECK(plan.status == 3);
    CHECK(plan.out == "");
    CHECK(plan.error == outcome.error);
  }
  const Outcome train = metronome("train digits --device cuda --no-save", "CUDA_VISIBLE_DEVICES=");
  CHECK(train.status == 3);
  CHECK(train.out == "");
  CHECK(train.error == outcome.error);
}

TEST_CASE("compare prints a row a model and writes them as JSON") {
  const std::string file = temporary("compare.json");
  const Outcome outcome = metronome("compare mlp gated_routing --rounds 7 --json " + file);
  CHECK(outcome.status == 0);
  CHECK(outcome.error == "");
  const auto json = nlohmann::json::parse(read(file));
  REQUIRE(json["results"].size() == 2);
  CHECK(json["results"][0]["model"] == "mlp");
  CHECK(json["results"][1]["model"] == "gated_routing");
}

TEST_CASE("compare --evaluate prints one row's and a batch's inference and writes them as JSON") {
  const std::string file = temporary("evaluate.json");
  const Outcome outcome = metronome("compare mlp --evaluate --rounds 7 --json " + file);
  CHECK(outcome.error == "");
  const auto json = nlohmann::json::parse(read(file));
  REQUIRE(json["results"].size() == 2);
  CHECK(json["results"][0]["rows"] == 1);
  CHECK(json["results"][1]["rows"] > 1);
  for (const auto& result : json["results"]) {
    CHECK(result["model"] == "mlp");
    CHECK(result["agree"] == true);
    CHECK(result["max_difference"] <= 1e-5);
  }
}

}  // namespace
