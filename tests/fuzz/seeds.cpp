// SPDX-License-Identifier: Apache-2.0
// Writes valid inputs of the parsers, from which the fuzzers start, to one folder per fuzzer: fuzz_seeds
// FOLDER FIXTURES, where FIXTURES is tests/unit/spank/placement/fixtures.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cbor.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/training_state.hpp"
#include "compute/cuda/autotune_results.hpp"
#include "encrypted_frames.hpp"
#include "frames.hpp"
#include "parameter_server/messages.hpp"
#include "pictures/jpeg_writer.hpp"
#include "pictures/png_writer.hpp"
#include "placement/report/report.hpp"
#include "placement/topology/live/topology_snapshot.hpp"
#include "protocol/messages.hpp"
#include "report/report_address.hpp"
#include "roster/join_record.hpp"
#include "step/step_record.hpp"
#include "tokenizer/split_pattern.hpp"
#include "trainer/picture_sets/tar_archive.hpp"
#include "transport/frame_body.hpp"
#include "transport/handshake.hpp"
#include "weights/huggingface_folder.hpp"
#include "weights/llmc_file.hpp"
#include "weights/safetensors_weights.hpp"

using namespace muster;
using fuzz::Bytes;
using nlohmann::json;

namespace {

std::filesystem::path folder;

void seed(const std::string& fuzzer, const std::string& name, const Bytes& bytes) {
  auto const at = folder / fuzzer;
  std::filesystem::create_directories(at);
  std::ofstream(at / name, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}
void seed(const std::string& fuzzer, const std::string& name, const std::string& text) {
  seed(fuzzer, name, Bytes(text.begin(), text.end()));
}

// FIRST, then each message as a frame; `from` identifies the sender.
Bytes framed(int first, const std::vector<std::pair<int, json>>& messages) {
  Bytes bytes;
  if (first >= 0) bytes.push_back(static_cast<std::uint8_t>(first));
  for (const auto& [from, message] : messages)
    fuzz::append_frame(bytes, static_cast<std::uint8_t>(from), control::write_frame_body(message));
  return bytes;
}

Bytes make_join_record(int rank) {
  bootstrap::JoinRecord record;
  record.hello.rank = rank;
  record.hello.host = "n0";
  record.hello.cpus = "0-3,8";
  record.addresses = {"10.0.0.1"};
  return bootstrap::encode_record(record);
}

json make_contribution(const std::string& name, int root = -1, const json& members = nullptr) {
  return encode(protocol::Contribution{name, members, root, std::chrono::seconds{5}, false, {1, 2}});
}

void seed_coordinator() {
  protocol::StalledOperation stalled;
  stalled.communicator = "world";
  stalled.members = {{1, 1, 2}};
  stalled.number = 3;
  stalled.operation = "all_reduce";
  protocol::RankState const state{1, 2, "all_reduce", true, "", {7, 6}, "all_reduce", ""};
  seed("fuzz_coordinator", "rounds",
       framed(-1, {{0, make_contribution("b", 0)},
                   {1, make_contribution("b", 0)},
                   {1, encode(protocol::FromRank{3, make_contribution("b")})}}));
  seed("fuzz_coordinator", "members",
       framed(-1,
              {{0, make_contribution("g", -1, {{1, 1, 2}})}, {1, make_contribution("g", -1, {{1, 1, 2}})}}));
  seed("fuzz_coordinator", "stalled",
       framed(-1, {{0, encode(stalled)}, {0, encode(state)}, {1, encode(state)}}));
  seed("fuzz_coordinator", "calls",
       framed(-1, {{0, encode(protocol::CallReport{"world", 3, 2, "barrier", 7})},
                   {1, encode(protocol::CallReport{"world", 3, 2, "all_reduce of 10 float32, sum", 8})}}));
  std::chrono::milliseconds const wait{10};
  seed("fuzz_coordinator", "store",
       framed(-1, {{0, encode(protocol::Put{"x", {1}})},
                   {0, encode(protocol::Get{1, "x", wait})},
                   {1, encode(protocol::Get{1, "y", wait})},
                   {1, encode(protocol::HostClock{1})},
                   {1, encode(protocol::ReadClocks{2})}}));
  using protocol::StoreAction;
  using protocol::StoreOperation;
  seed("fuzz_coordinator", "store_operations",
       framed(-1, {{0, encode(StoreOperation{1, StoreAction::add, "x", {'1'}, {}})},
                   {1, encode(StoreOperation{2, StoreAction::append, "x", {'2'}, {}})},
                   {0, encode(StoreOperation{3, StoreAction::compare_set, "x", {1}, {'1', '2'}})},
                   {1, encode(StoreOperation{4, StoreAction::contains, "x", {}, {}})},
                   {0, encode(StoreOperation{5, StoreAction::count, "", {}, {}})},
                   {1, encode(StoreOperation{6, StoreAction::erase, "x", {}, {}})}}));
  seed("fuzz_coordinator", "rpc",
       framed(-1, {{0, encode(protocol::RpcRequest{1, 2, 7, "topic", {1}})},
                   {1, encode(protocol::RpcResponse{2, 1, 7, true, {1}})}}));
  seed("fuzz_coordinator", "ends",
       framed(-1, {{1, encode(protocol::RankConnected{3})},
                   {1, encode(protocol::RankDisconnected{3, "x", true})},
                   {1, encode(protocol::LauncherExit{"slurmstepd"})},
                   {0, encode(protocol::FailureReport{ErrorCode::usage, "x"})}}));
}

void seed_ranks() {
  auto const failure = encode(protocol::Failure{ErrorCode::usage, 0, "x"});
  auto const done = encode(protocol::RoundResult{"b", false, {{1}, {2}}});
  auto const response = encode(protocol::Response{1, encode(protocol::Value{true, {1}})});
  for (int leads : {0, 1}) {
    auto const name = std::to_string(leads);
    seed("fuzz_control_plane", "responses" + name,
         framed(leads, {{0, response}, {0, done}, {0, encode(protocol::RoundResult{"c", false, {{1}}})}}));
    seed("fuzz_control_plane", "state" + name,
         framed(leads, {{0, encode(protocol::RankStateQuery{1, "world", 3})}, {0, failure}}));
    seed("fuzz_control_plane", "lost" + name,
         framed(leads, {{0, encode(protocol::RanksLost{{2, 3}, "x"})}, {0, done}}));
    seed("fuzz_control_plane", "relayed" + name,
         framed(leads, {{0, encode(protocol::ToRanks{{1, 2}, response})}, {0, done}}));
    seed("fuzz_rendezvous_server", "hello" + name,
         framed(leads, {{0, encode(protocol::JoinHello{3, make_join_record(1 + leads)})},
                        {0, encode(protocol::ProcessReport{"n0", {{2, 7, "x"}}})}}));
  }
  auto const records = encode(protocol::JoinRecords{{make_join_record(0), make_join_record(1)}});
  seed("fuzz_rendezvous_client", "records",
       framed(-1, {{0, encode(protocol::ProcessQuery{})}, {0, records}}));
  seed("fuzz_rendezvous_client", "failure", framed(-1, {{0, failure}}));
  seed("fuzz_secure_channel", "messages", framed(1, {{0, done}, {0, encode(protocol::Heartbeat{"x"})}}));
  Bytes raw{0};
  fuzz::FrameEncryptor(control::Key{}).append(raw, write_cbor(done));
  seed("fuzz_secure_channel", "raw", raw);
  seed("fuzz_join_record", "hello", make_join_record(1));
}

void seed_parameter_servers() {
  using namespace parameter_server;
  std::chrono::milliseconds const wait{10};
  // A server's slice has 32 elements.
  PushPart const part{1, 0, 0, 0, false, Blob(128)};
  PushPart const rounded{1, 0, 1, 0, true, Blob(64)};
  std::vector<std::pair<int, json>> const tasks{{0, encode(part)},
                                                {0, encode(PushEnd{2, 0, 0, {0.5}})},
                                                {0, encode(TaskDone{3, 0, 0, {1, 2}})},
                                                {1, encode(rounded)},
                                                {1, encode(PushEnd{2, 0, 1, {0.5, 1}})},
                                                {1, encode(TaskDone{3, 0, 1, {1}})},
                                                {1, encode(WaitFor{4, 1, wait})},
                                                {0, encode(Read{4, 0, 1, 8, 16, true})}};
  for (int const choice : {0, 1, 2, 3}) {
    auto messages = tasks;
    if (choice / 2 == 1)
      messages.insert(messages.begin(), {{0, encode(Take{5, 0})}, {1, encode(Take{5, 0})}});
    seed("fuzz_parameter_server", "tasks" + std::to_string(choice), framed(choice, messages));
  }
  seed("fuzz_parameter_server", "others",
       framed(2, {{0, encode(Write{1, 0, 4, Blob(16)})},
                  {0, encode(AddSums{2, {1}})},
                  {1, encode(WaitFor{3, 2, wait})},
                  {0, encode(Leave{4})}}));
  Reply values{2};
  values.payload.resize(16);
  Reply bfloat16_values{3};
  bfloat16_values.payload.resize(8);
  Reply failed{3};
  failed.error = "x";
  seed(
      "fuzz_parameter_client", "values",
      framed(-1,
             {{0, encode(Reply{1, true, 2, 3, 4, {1}})}, {0, encode(values)}, {0, encode(bfloat16_values)}}));
  seed("fuzz_parameter_client", "failed", framed(-1, {{0, encode(failed)}, {0, encode(values)}}));
}

Bytes key_frame(const json& content) {
  Bytes const sealed = write_cbor(content);
  Bytes frame{'m', 'u', 's', 't', 'k', 'e', 'y', 1, static_cast<std::uint8_t>(sealed.size()), 0, 0, 0};
  frame.insert(frame.end(), sealed.begin(), sealed.end());
  return frame;
}

void seed_strangers() {
  auto const greeting = control::make_client_hello(1, control::KeyPair().public_key());
  Bytes bytes(greeting.begin(), greeting.end());
  bytes.resize(bytes.size() + control::mac_bytes, 7);
  seed("fuzz_authenticating_acceptor", "greeting", bytes);
  Bytes const nonce(32, 1);
  json request{{"job", "slurm/c/1.0/"}, {"rank", 3}, {"nonce", json::binary(nonce)}};
  seed("fuzz_key_server", "request", key_frame(request));
  request["key"] = json::binary(Bytes(32, 2));
  request["port"] = 12000;
  request["rank"] = 1;
  seed("fuzz_job_credentials", "credentials", key_frame(request));
}

// The shortest valid record: no facts, no GPUs, no tasks.
std::string empty_step() {
  for (std::size_t size = 0; size < 4096; ++size) try {
      return write_record(spank::read_record(std::string(size, '\0'), 0));
    } catch (const std::runtime_error&) {
    }
  return {};
}

void seed_plugin() {
  seed("fuzz_options", "words",
       std::string(
           "auto,gpu=on,cpu=off,memory=bind,report,json=/x/%j,tasks-per-gpu=2\ndefault=strict,nic=off\n"
           "isolation=keep\ntopology=/a\nprofiles=/b\ncache=off"));
  seed("fuzz_step_environment", "job",
       std::string(
           "SLURM_GPUS_PER_TASK=a100:2\nSLURM_TRES_PER_TASK=cpu=1,gres/gpu=2\nSLURM_STEP_NUM_TASKS=8\n"
           "CUDA_VISIBLE_DEVICES=0,1,2,3\nSLURMD_TRES_BIND=gpu:none\nSLURM_MUSTER_LIFTED=SLURM_GPU_BIND:1\n"
           "MUSTER_SET=RANK,A\nMUSTER_SET_SUMS=0,1\nSLURM_UMASK=0022\njson=a-%N.%j\n"
           "_SLURM_SPANK_OPTION_muster_muster=auto,report\n-n4\n--gpus-per-task=2\n--muster=strict\ntrue"));
  seed("fuzz_rank_layout", "cyclic", std::string("n[0-2]\n4,3,1\ncyclic\n\n\n8\n0,3,5,7"));
  seed("fuzz_rank_layout", "plane", std::string("n[0-2]\n4,3,1\nplane\n2\n\n8\n0,1,5,6"));
  seed("fuzz_rank_layout", "announced", std::string("n[0-2]\n2,1(x2)\narbitrary\n\n2,0,0,1\n4\n1,2"));
  seed("fuzz_heterogeneous", "two", std::string("n[0-1]\n2,1\ncyclic\n\n3\n1\nn1\nn0"));
  seed("fuzz_node_features", "conf",
       std::string("NodeName=DEFAULT Features=plain\nNodeName=n[0-3],x Feature=\"a b,c\" \\\n CPUs=4 # "
                   "no\nInclude 3\n"));
  seed("fuzz_node_features", "includes itself twice",
       std::string("NodeName=d[0-65515] x\nInclude 4\nInclude 4\n"));
  seed("fuzz_report_address", "address",
       spank::ReportAddress{{"10.0.0.1", "fd00::1"}, 40000, std::string(32, 'a')}.to_string());
  seed("fuzz_report_collector", "report",
       "\7" + placement::write_node_report({"n0", {{}}, {"x"}, {"y"}, {}, "", "", 1}));
  seed("fuzz_report_collector", "stranger", std::string("\0GET / HTTP/1.1\r\n", 17));
  seed("fuzz_step_record", "empty", empty_step());
}

void seed_texts() {
  seed("fuzz_variables", "slurm",
       "SLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_LOCALID=1\nSLURM_JOB_ID=7\nSLURM_STEP_NUM_TASKS=6\nSLURM_STEP_"
       "NODELIST=n[0-1],m\n"
       "SLURM_STEP_TASKS_PER_NODE=2(x3)\nSLURM_DISTRIBUTION=cyclic\nSLURM_STEP_RESV_PORTS=12000-12003,"
       "12007\n");
  seed("fuzz_variables", "torchrun",
       "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=n0\nMASTER_PORT="
       "29500\nTORCHELASTIC_RUN_ID=a\nMUSTER_PORT=7\n"
       "OMPI_COMM_WORLD_SIZE=4\nOMPI_COMM_WORLD_RANK=1\nPMI_SIZE=4\nPMI_RANK=1\n");
  seed("fuzz_host_list", "slurm", std::string("r[0-1]n[07-09,12]-ib,x1,m[1-3]"));
  seed("fuzz_host_list", "numbers", std::string("0-3,8,12000-12003"));
  seed("fuzz_nccl_conf", "conf",
       std::string("# comment\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME==eth0\n\nA\nNCCL_DEBUG=INFO\n"));
  seed("fuzz_profile", "profile",
       std::string("[match]\npartition = [\"gpu*\", \"x\"]\nvendor = \"Dell*\"\n[environment]\nNCCL_DEBUG = "
                   "\"WARN\"\nNCCL_IB_HCA = false\nN = 1\n"));
  seed("fuzz_job_description", "job",
       std::string("name = \"a\"\nnodes = 2\ntasks_per_node = 2\ncpus_per_task = 1\nmemory_gib_per_task = 1\n"
                   "command = [\"x y\", \"${A}\", \"${B}\", \"$${C}\"]\nimage = \"i\"\ndata = \"/d\"\n"
                   "arguments = \"[a]\"\nvariables = { A = \"${name}\" }\nscript_variables = { B = \"1\" }\n"
                   "environment = { E = \"$1\" }\n[slurm]\ncontainer = \"apptainer\"\n"
                   "[kubernetes]\ndata_claim = \"d\"\n[mpirun]\nhostfile = \"h\"\ncontainer = \"none\"\n"));
  seed("fuzz_profile", "strings",
       std::string("[environment] # \u03ff\n'\u03ff' = \"\"\"\u03ff \\\n  a\"\"\"\"\nA.B.\"\u00a0\" = "
                   "'''\n\u03ff'''\nC = [{a = 'x', b.c = [[1.5, 2]]}]\n"));
}

void seed_training_data() {
  Bytes shard(1024 + 6);
  const std::uint8_t header[] = {0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 3, 0, 0, 0};  // 20240520, 1, 3
  std::copy(std::begin(header), std::end(header), shard.begin());
  seed("fuzz_shard", "three", shard);
  shard[1025] = 0xff;
  seed("fuzz_shard", "large_token", shard);
  Bytes records(1 + 2 * 3073, 7);
  seed("fuzz_cifar", "ten", records);
  records.resize(1 + 2 * 3074, 7);
  records[0] = 1;
  seed("fuzz_cifar", "hundred", records);
  seed("fuzz_idx", "images", Bytes{2, 0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 7, 9});
  seed("fuzz_idx", "labels", Bytes{0, 0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3});
}

void seed_pictures() {
  pictures::Picture picture(20, 12);
  for (std::size_t i = 0; i < picture.pixels.size(); ++i)
    picture.pixels[i] = static_cast<std::uint8_t>(i * 5);
  const auto kind = [](const std::string& name, Bytes bytes, std::uint8_t shrink) {
    bytes.insert(bytes.begin(), shrink);
    seed("fuzz_picture", name, bytes);
  };
  kind("baseline", pictures::write_jpeg(picture, {}), 0);
  kind("progressive", pictures::write_jpeg(picture, {.progressive = true}), 1);
  kind("grey", pictures::write_jpeg(picture, {.grey = true}), 2);
  kind("cmyk", pictures::write_jpeg(picture, {.cmyk = true}), 0);
  kind("turned", pictures::write_jpeg(picture, {.orientation = 6}), 3);
  kind("png", pictures::write_png(picture), 0);
  seed("fuzz_picture_list", "plain", std::string("\0a/1.jpg 0\nmy dog.png 12\n", 25));
  seed("fuzz_picture_list", "columns",
       std::string("\3image_id class_id super_class_id path\n1 1 1 bicycle/1.JPG\n2 7 12 a b.JPG\n"));
  seed("fuzz_picture_shard", "ustar",
       tar_member("a/1.jpg", "J") + tar_member("a/1.cls", "7") + tar_member("2.cls", "0\n") +
           tar_member("2.png", "P") + tar_end());
  seed("fuzz_picture_shard", "long",
       tar_member("././@LongLink", std::string(120, 'n') + ".jpg", 'L') + tar_member("n.jpg", "J") +
           tar_member("pax", "17 path=long.jpg\n", 'x') + tar_member("l", "J") +
           tar_member("pax", "9 size=1\n", 'x') + tar_member("long.cls", "1") + tar_end());
}

void seed_checkpoints() {
  seed("fuzz_training_state", "state",
       write_state({{40, 480, 0, "gpt layers=1", 7, 12, 0x1234, 2, 1, 0}, 0x5678}));
  using namespace compute::cuda;
  seed("fuzz_autotune_results", "results",
       write_autotune_results({"a GPU",
                               "cuBLASLt 13.1.0",
                               {{{16, 64, 128, true, false, false, true, Epilogue::bias_gradient},
                                 {{1, 2, 3, 4, 5, 6.5}, {2, 2, 3, 1, 0, 4.25}},
                                 1,
                                 {7},
                                 false,
                                 9.5}}}));
  auto const at = folder / "fuzz_safetensors";
  std::filesystem::create_directories(at);
  float const values[] = {1, 2, 3, 4};
  write_safetensors(
      at / "two", {{"step", "40"}},
      {{"a", "F32", {2, 1}, values, 8}, {"b.c", "BF16", {4}, values, 8}, {"none", "U8", {0}, values, 0}});
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void seed_huggingface(const models::GptConfig& config, const char* folder_name, const char* config_name) {
  std::vector<float> const parameters(models::gpt_tensors(config).arena_size, 0.5F);
  auto const at = folder / "weights";
  weights::write_huggingface_folder(at, config, "", parameters);
  auto const whole = read_bytes(at / "config.json") + '\0', tensors = read_bytes(at / "model.safetensors");
  seed("fuzz_huggingface", folder_name, whole + tensors);
  seed("fuzz_huggingface", folder_name + std::string("_index"),
       whole + R"({"weight_map":{"wte.weight":"a.safetensors"}})" + '\0' + tensors);
  seed("fuzz_huggingface", config_name, read_bytes(at / "config.json"));
  std::filesystem::remove_all(at);
}

void seed_weights() {
  models::GptConfig const config{1, 1, 2, 2, 3};
  std::vector<float> const parameters(models::gpt_tensors(config).arena_size, 0.5F);
  std::filesystem::create_directories(folder / "fuzz_llmc");
  weights::write_llmc_file(folder / "fuzz_llmc" / "padded", config, parameters);
  std::filesystem::create_directories(folder / "fuzz_exported_weights");
  weights::write_safetensors_weights(folder / "fuzz_exported_weights" / "gpt2", config, "", parameters);
  seed_huggingface(config, "folder", "config");
  seed_huggingface({1, 2, 4, 2, 3, models::LlamaConfig{1, 2}}, "llama_folder", "llama_config");
}

void seed_tokenizers() {
  auto const file = [](const std::string& pre_tokenizer) {
    return R"({"added_tokens":[{"id":5,"content":"<|e|>","normalized":false,"special":true}],"normalizer":null,
"pre_tokenizer":)" +
           pre_tokenizer +
           R"(,"model":{"type":"BPE","ignore_merges":true,"vocab":{"a":0,"b":1,"ab":2,"\u0120":3,"\u0120a":4},
"merges":["a b",["\u0120","a"]]}})";
  };
  std::string const text = " abab<|e|>ab a";
  auto const prefix = std::string(1, static_cast<char>(text.size()));
  seed("fuzz_tokenizer_file", "gpt2",
       prefix + file(R"({"type":"ByteLevel","add_prefix_space":false})") + text);
  seed("fuzz_tokenizer_file", "prefix", prefix + file(R"({"type":"ByteLevel","use_regex":false})") + text);
  seed(
      "fuzz_tokenizer_file", "llama3",
      prefix +
          file(
              R"({"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated","pattern":{"Regex":)" +
              json(tokenizer::SplitPattern::llama3).dump() +
              R"(}},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})") +
          text);
  seed("fuzz_text", "words", std::string("the 'S aaaa  \n\n<|end|>\xc3\xa9 123\t<x>"));
}

void seed_documents(const std::filesystem::path& fixtures) {
  for (const auto& entry : std::filesystem::directory_iterator(fixtures)) {
    auto const name = entry.path().filename().string();
    auto const fuzzer = name.ends_with(".hwloc.xml")  ? "fuzz_hwloc_xml"
                        : name.ends_with(".nccl.xml") ? "fuzz_nccl_xml"
                                                      : "";
    if (std::strlen(fuzzer) == 0) continue;
    std::filesystem::create_directories(folder / fuzzer);
    std::filesystem::copy_file(entry.path(), folder / fuzzer / name,
                               std::filesystem::copy_options::overwrite_existing);
  }
  placement::Node node;
  node.source = "x";
  node.domains.resize(1);
  node.domains[0].id = 0;
  node.domains[0].cpus = CpuSet{0, 1};
  node.domains[0].distances = {10};
  node.cores = {{0, 0, CpuSet{0}}, {0, 0, CpuSet{1}}};
  node.gpus.resize(1);
  node.gpus[0].pci = placement::PciAddress::parse("0000:3b:00.0");
  node.gpus[0].domain = 0;
  auto const record = placement::write_snapshot(node, {"boot", 7});
  seed("fuzz_topology_snapshot", "record", record);
  seed("fuzz_topology_snapshot", "body", record.substr(record.find('\n') + 1));
  placement::NodeReport report;
  report.host = "n0";
  report.rows.resize(1);
  report.warnings = {"w"};
  seed("fuzz_report", "report", placement::write_node_report(report));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  folder = argv[1];
  seed_coordinator();
  seed_ranks();
  seed_parameter_servers();
  seed_strangers();
  seed_texts();
  seed_plugin();
  seed_training_data();
  seed_pictures();
  seed_checkpoints();
  seed_weights();
  seed_tokenizers();
  seed_documents(argv[2]);
  return 0;
}
