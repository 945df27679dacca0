// SPDX-License-Identifier: Apache-2.0
// The reducer's bfloat16 and deterministic modes on GPU memory, on fakes of CUDA and NCCL: their bits
// compared with those of the host's reductions, on one rank and several, and the order of the enqueued work.
#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "random_gradient.hpp"
#include "ranks_on_fake_gpus.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

const std::vector<std::size_t> lengths{1000, 1, 0, 2001, 33, 4096, 5};

// Numbers of many magnitudes, with extreme values of float32 and bfloat16.
std::vector<float> make_gradient(std::uint64_t chunk, std::size_t parameter, std::uint64_t step) {
  auto values = random_gradient(lengths[parameter], chunk, parameter, step);
  using Limits = std::numeric_limits<float>;
  float const odd[] = {-0.0f, Limits::denorm_min(), Limits::max(), -Limits::infinity(), 0x1.01p0f, 0x1.03p0f};
  if (values.size() > 100) {
    for (std::size_t i = 0; i < std::size(odd); ++i) values[7 * i + chunk % 7] = odd[i];
  }
  return values;
}

// The gradients after each of two steps on this rank, in the reducer's own memory or in scattered memory.
std::vector<float> two_steps(const Communicator& world, const ReducerOptions& options, bool scattered) {
  std::vector<std::vector<float>> apart;
  std::vector<std::span<float>> spans;
  for (auto const length : lengths) apart.emplace_back(length + 1);
  for (std::size_t i = 0; i < lengths.size(); ++i) spans.push_back(std::span(apart[i]).first(lengths[i]));
  auto reducer = scattered ? Reducer(world, spans, options) : Reducer(world, lengths, options);
  std::vector<float> left;
  for (std::uint64_t step = 0; step < 2; ++step) {
    for (auto chunk = reducer.chunks().begin; chunk < reducer.chunks().end; ++chunk) {
      for (std::size_t i = lengths.size(); i-- > 0;) {
        auto const values = make_gradient(chunk, i, step);
        std::copy(values.begin(), values.end(), reducer.gradient(i).begin());
        reducer.ready(i);
      }
    }
    reducer.finish();
    for (std::size_t i = 0; i < lengths.size(); ++i)
      left.insert(left.end(), reducer.gradient(i).begin(), reducer.gradient(i).end());
  }
  return left;
}

// For each stream whose log contains `what`: its operations, one word each.
std::vector<std::string> streams_with(const std::string& what, const std::string& log) {
  std::map<std::string, std::string> by_stream;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines >> std::ws, line, ';');) {
    auto const waits = line.find(" waits for ");
    auto const on = line.find(" on ");
    if (waits != std::string::npos) by_stream[line.substr(0, waits)] += "waits ";
    if (on != std::string::npos) by_stream[line.substr(on + 4)] += line.substr(0, line.find(' ') + 1);
  }
  std::vector<std::string> found;
  for (const auto& [stream, work] : by_stream)
    if (work.find(what) != std::string::npos) found.push_back(work);
  return found;
}

}  // namespace

TEST_CASE("on GPUs the reducer's modes give the same bits as on host memory") {
  std::vector<ReducerOptions> const all{
      {.bucket_bytes = 16000, .bfloat16 = true},
      {.reduction = Reduction::sum, .bucket_bytes = 4, .bfloat16 = true, .overlap = false},
      {.bucket_bytes = 16000, .chunks = 1},
      {.bucket_bytes = 4, .chunks = 3},
      {.reduction = Reduction::sum, .bucket_bytes = 100'000, .chunks = 8},
      {.bucket_bytes = 16000, .chunks = 7, .overlap = false},
  };
  using ByRank = std::vector<std::vector<float>>;
  std::vector<std::vector<float>> of_one;
  for (int const ranks : {1, 2, 3}) {
    std::vector<ByRank> gpu(all.size(), ByRank(3)), host(all.size(), ByRank(3));
    run_on_gpus(ranks, [&](int rank, const Communicator& on_gpu, const Communicator& on_host) {
      auto const r = static_cast<std::size_t>(rank);
      for (std::size_t o = 0; o < all.size(); ++o) {
        gpu[o][r] = two_steps(on_gpu, all[o], o % 2 == 1);
        host[o][r] = two_steps(on_host, all[o], false);
      }
    });
    for (std::size_t o = 0; o < all.size(); ++o) {
      INFO(ranks << " ranks, options " << o);
      for (int r = 0; r < ranks; ++r) REQUIRE(same_bits(gpu[o][static_cast<std::size_t>(r)], host[o][0]));
      if (ranks == 1) of_one.push_back(gpu[o][0]);
      // The deterministic mode gives the same bits on any number of ranks; bfloat16 does not.
      CHECK(same_bits(gpu[o][0], of_one[o]) == (ranks == 1 || all[o].chunks > 0));
    }
  }
  CHECK(live_cuda_objects() == 0);
  CHECK(nccl_count("fake_nccl_allocations") == 0);
}

TEST_CASE("on a GPU a chunk is added after the program writes it and before it writes the next one") {
  OnFakes fakes;
  Stream const first = create_stream(), second = create_stream();
  {
    Reducer reducer(*fakes.world, std::vector<std::size_t>{100, 200, 300},
                    {.bucket_bytes = 1000, .chunks = 4});
    int const memory = nccl_count("fake_nccl_allocations");
    int const queries = call_fake<int>(FAKE_CUDA_FILE, "fake_cuda_stream_queries");
    cuda_log();
    reducer.ready(2, first);
    CHECK(normalize_log(cuda_log()) == "record a on b; c waits for a; copy d on c; ");
    reducer.ready(1, first);
    CHECK(cuda_log().empty());
    reducer.ready(0, second);
    // Both streams wait before they compute the next chunk.
    CHECK(normalize_log(cuda_log()) ==
          "record a on b; c waits for a; record a on d; c waits for a; copy e on c; "
          "record a on c; b waits for a; record a on c; d waits for a; ");
    std::string const added = "record a on 0; b waits for a; muster_add on b; ";
    for (std::size_t const i : {1, 0, 2}) reducer.ready(i);
    CHECK(normalize_log(cuda_log()) == added + added + "record a on b; 0 waits for a; ");
    for (std::size_t const i : {2, 1, 0}) reducer.ready(i);
    cuda_log();
    // The last chunk: the program's stream does not wait before finish().
    reducer.ready(2);
    CHECK(
        normalize_log(cuda_log()) ==
        "record a on 0; b waits for a; muster_add on b; muster_add on b; record c on b; muster_divide on b; "
        "copy d on b; record e on b; ");
    reducer.ready(1);
    reducer.ready(0);
    CHECK(cuda_log().find("; 0 waits") == std::string::npos);
    reducer.finish();
    CHECK(normalize_log(cuda_log()) == "record a on 0; record b on c; 0 waits for b; record d on 0; ");
    // No memory was allocated since, and no call has waited.
    CHECK(nccl_count("fake_nccl_allocations") == memory);
    CHECK(call_fake<int>(FAKE_CUDA_FILE, "fake_cuda_stream_queries") == queries);
    auto const statistics = reducer.last_step();
    CHECK(statistics.buckets == 2);
    CHECK(statistics.bytes == 2400);
    CHECK(statistics.communication == Approx(0.002));
  }
  for (Stream const stream : {first, second}) destroy_stream(stream);
  CHECK(live_cuda_objects() == 0);
  CHECK(nccl_count("fake_nccl_allocations") == 0);
}

TEST_CASE("on GPUs bfloat16 rounds, exchanges, adds, exchanges and widens on the side stream") {
  std::vector<ReducerStatistics> statistics(2);
  run_on_gpus(2, [&](int rank, const Communicator& on_gpu, Communicator on_host) {
    Reducer reducer(on_gpu, std::vector<std::size_t>{100, 200}, {.bucket_bytes = 4, .bfloat16 = true});
    on_host.barrier();
    if (rank == 0) cuda_log();
    on_host.barrier();
    for (std::size_t const i : {1, 0}) reducer.ready(i);
    reducer.finish();
    statistics[static_cast<std::size_t>(rank)] = reducer.last_step();
    on_host.barrier();
  });
  // The bucket's events enclose its work; after each exchange comes the watchdog's event.
  std::string const bucket =
      "waits record muster_narrow record muster_sum_shards record muster_widen record ";
  auto const side_streams = streams_with("muster_narrow", cuda_log());
  REQUIRE(side_streams.size() == 2);
  for (const auto& work : side_streams) CHECK(work == bucket + bucket + "record ");  // for finish()
  for (const auto& one : statistics) {
    CHECK(one.buckets == 2);
    CHECK(one.bytes == 600);
    CHECK(one.communication > 0);
  }
}

TEST_CASE("when a rank has no chunk, its gradients on the GPU are written after the program's use of them") {
  run_on_gpus(2, [](int rank, const Communicator& on_gpu, Communicator on_host) {
    Reducer reducer(on_gpu, std::vector<std::size_t>{100}, {.chunks = 1});
    on_host.barrier();
    if (rank == 0) cuda_log();
    on_host.barrier();
    if (rank == 0) reducer.ready(0);
    reducer.finish();
    on_host.barrier();
  });
  auto const side_streams = streams_with("copy", cuda_log());
  REQUIRE(side_streams.size() == 2);
  for (const auto& work : side_streams) CHECK(work.find("waits ") == 0);
}

TEST_CASE("when a rank is lost, the other ranks' exchange of gradients on GPUs ends") {
  for (auto const& options : {ReducerOptions{.bfloat16 = true}, ReducerOptions{.chunks = 2}}) {
    run_on_gpus(
        2,
        [&](int rank, const Communicator& on_gpu, Communicator on_host) {
          Reducer reducer(on_gpu, std::vector<std::size_t>{100}, options);
          on_host.barrier();
          if (rank == 0) reducer.ready(0);
        },
        1,
        [](const ThrownErrors& thrown) {
          REQUIRE(thrown[0]);
          CHECK(thrown[0]->code() == ErrorCode::lost_rank);
          CHECK(has(thrown[0]->what(), "rank 1"));
        });
  }
}

TEST_CASE("the gradient memory of several ranks is a window of NCCL where it makes one, else registered") {
  struct Expected {
    const char* nccl;
    ReducerOptions options;
    int windows, registrations;
    const char* enable = "1";
  };
  for (const auto& [nccl, options, windows, registrations, enable] :
       {Expected{"", {}, 2, 0}, Expected{"no_windows", {}, 0, 2}, Expected{"no_memory", {}, 0, 2},
        Expected{"", {.bfloat16 = true}, 0, 2}, Expected{"", {}, 0, 2, "0"}}) {
    CAPTURE(nccl, options.bfloat16, enable);
    setenv("NCCL_WIN_ENABLE", enable, 1);
    // Jobs that failed before have left theirs.
    int const before = nccl_count("fake_nccl_registrations");
    run_on_gpus(
        2,
        [&](int rank, const Communicator& on_gpu, Communicator on_host) {
          // Else the size of buckets is measured, on registered memory.
          ReducerOptions with = options;
          with.bucket_bytes = 100;
          Reducer reducer(on_gpu, std::vector<std::size_t>{10}, with);
          on_host.barrier();
          if (rank == 0) {
            CHECK(nccl_count("fake_nccl_windows") == windows);
            int const registered = nccl_count("fake_nccl_registrations") - before;
            CHECK((registrations == 0 ? registered == 0 : registered >= registrations));
          }
          on_host.barrier();
          reducer.gradient(0)[3] = static_cast<float>(rank);
          reducer.ready(0);
          reducer.finish();
          Communicator(on_gpu).synchronize();
          if (rank == 0) CHECK(reducer.gradient(0)[3] == 0.5f);
        },
        -1, check_no_errors, nccl);
    unsetenv("NCCL_WIN_ENABLE");
    CHECK(nccl_count("fake_nccl_windows") == 0);
    CHECK(nccl_count("fake_nccl_registrations") == before);
  }
}

TEST_CASE("when NCCL refuses a window, the job fails with NCCL's reason") {
  run_on_gpus(
      2,
      [&](int, const Communicator& on_gpu, const Communicator&) {
        Reducer(on_gpu, std::vector<std::size_t>{10}, {.bucket_bytes = 100});
      },
      -1,
      [](const ThrownErrors& thrown) {
        REQUIRE(thrown[0]);
        CHECK(thrown[0]->code() == ErrorCode::device);
      },
      "fail_window");
}

TEST_CASE("when a reducer mode cannot work on a GPU, the error names the reason") {
  OnFakes fakes;
  auto const error_with = [&](const ReducerOptions& options) {
    return catch_error([&] { Reducer(*fakes.world, std::vector<std::size_t>{10}, options); });
  };
  CHECK(error_with({.bfloat16 = true, .chunks = 2}).code() == ErrorCode::usage);
  setenv("FAKE_CUDA", "no_kernels", 1);
  Reducer const plain(*fakes.world, std::vector<std::size_t>{10});  // needs none
  auto const error = error_with({.chunks = 2});
  CHECK(error.code() == ErrorCode::device);
  CHECK(has(error.what(), "MUSTER_CUDA_ARCHITECTURES"));
  CHECK(has(error.what(), "no kernel image is available for execution on the device"));
}

TEST_CASE("with MUSTER_CUDA_CHECK the error of the reducer's kernel names it") {
  for (const char* check : {"0", "1"}) {
    OnFakes fakes;
    setenv("MUSTER_CUDA_CHECK", check, 1);
    Reducer reducer(*fakes.world, std::vector<std::size_t>{10}, {.chunks = 2});
    unsetenv("MUSTER_CUDA_CHECK");
    reducer.ready(0);
    setenv("FAKE_CUDA", "stream_error", 1);
    auto const error = catch_error([&] {
      reducer.ready(0);
      reducer.finish();
      fakes.world->synchronize();
    });
    setenv("FAKE_CUDA", "", 1);
    CHECK(error.code() == ErrorCode::device);
    CHECK(has(error.what(), "an illegal memory access"));
    CHECK(has(error.what(), "muster_add: ") == (check[0] == '1'));
  }
  OnFakes fakes;
  setenv("MUSTER_CUDA_CHECK", "yes", 1);
  auto const error = catch_error([&] { Reducer(*fakes.world, std::vector<std::size_t>{10}, {.chunks = 2}); });
  unsetenv("MUSTER_CUDA_CHECK");
  CHECK(has(error.what(), "MUSTER_CUDA_CHECK is 0 or 1, not 'yes'"));
}

TEST_CASE(
    "when the kernels' parameters are not those that the reducer launches them with, an error says so") {
  OnFakes fakes;
  setenv("FAKE_CUDA", "other_kernels", 1);
  auto const error = catch_error([&] {
    Reducer reducer(*fakes.world, std::vector<std::size_t>{10}, {.chunks = 2});
    for (int chunk = 0; chunk < 2; ++chunk) reducer.ready(0);
    reducer.finish();
  });
  CHECK(error.code() == ErrorCode::device);
  CHECK(has(error.what(),
            "the kernel muster_add: its 3 parameters have 4, 4, 4 bytes, and the 3 arguments of its "
            "launch 8, 8, 8"));
}
