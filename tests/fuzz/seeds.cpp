// SPDX-License-Identifier: Apache-2.0
// Writes valid inputs of the parsers, from which the fuzzers start, to one folder per fuzzer: fuzz_seeds
// FOLDER FIXTURES, where FIXTURES is tests/unit/spank/placement/fixtures.
#include "seeds.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.hpp"
#include "checkpoint/training_state.hpp"
#include "compute/cuda/autotune_results.hpp"
#include "pictures/jpeg_writer.hpp"
#include "pictures/png_writer.hpp"
#include "placement/report/report.hpp"
#include "placement/topology/live/topology_snapshot.hpp"
#include "report/report_address.hpp"
#include "step/step_record.hpp"
#include "tokenizer/split_pattern.hpp"
#include "trainer/picture_sets/tar_archive.hpp"
#include "weights/huggingface_folder.hpp"
#include "weights/llmc_file.hpp"
#include "weights/safetensors_weights.hpp"

using namespace muster;
using fuzz::Bytes;
using fuzz::seed;
using nlohmann::json;

namespace {

std::filesystem::path folder;

std::filesystem::path make_folder(const std::string& fuzzer) {
  std::filesystem::create_directories(folder / fuzzer);
  return folder / fuzzer;
}

}  // namespace

void fuzz::seed(const std::string& fuzzer, const std::string& name, const std::string& text) {
  std::ofstream(make_folder(fuzzer) / name, std::ios::binary) << text;
}
void fuzz::seed(const std::string& fuzzer, const std::string& name, const Bytes& bytes) {
  seed(fuzzer, name, std::string(bytes.begin(), bytes.end()));
}

namespace {

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
       "auto,gpu=on,cpu=off,memory=bind,report,json=/x/%j,tasks-per-gpu=2\ndefault=strict,nic=off\n"
       "isolation=keep\ntopology=/a\nprofiles=/b\ncache=off");
  seed("fuzz_step_environment", "job",
       "SLURM_GPUS_PER_TASK=a100:2\nSLURM_TRES_PER_TASK=cpu=1,gres/gpu=2\nSLURM_STEP_NUM_TASKS=8\n"
       "CUDA_VISIBLE_DEVICES=0,1,2,3\nSLURMD_TRES_BIND=gpu:none\nSLURM_MUSTER_LIFTED=SLURM_GPU_BIND:1\n"
       "MUSTER_SET=RANK,A\nMUSTER_SET_SUMS=0,1\nSLURM_UMASK=0022\njson=a-%N.%j\n"
       "_SLURM_SPANK_OPTION_muster_muster=auto,report\n-n4\n--gpus-per-task=2\n--muster=strict\ntrue");
  seed("fuzz_rank_layout", "cyclic", "n[0-2]\n4,3,1\ncyclic\n\n\n8\n0,3,5,7");
  seed("fuzz_rank_layout", "plane", "n[0-2]\n4,3,1\nplane\n2\n\n8\n0,1,5,6");
  seed("fuzz_rank_layout", "announced", "n[0-2]\n2,1(x2)\narbitrary\n\n2,0,0,1\n4\n1,2");
  seed("fuzz_heterogeneous", "two", "n[0-1]\n2,1\ncyclic\n\n3\n1\nn1\nn0");
  seed("fuzz_node_features", "conf",
       "NodeName=DEFAULT Features=plain\nNodeName=n[0-3],x Feature=\"a b,c\" \\\n CPUs=4 # "
       "no\nInclude 3\n");
  seed("fuzz_node_features", "includes itself twice", "NodeName=d[0-65515] x\nInclude 4\nInclude 4\n");
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
  seed("fuzz_host_list", "slurm", "r[0-1]n[07-09,12]-ib,x1,m[1-3]");
  seed("fuzz_host_list", "numbers", "0-3,8,12000-12003");
  seed("fuzz_nccl_conf", "conf",
       "# comment\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME==eth0\n\nA\nNCCL_DEBUG=INFO\n");
  seed("fuzz_profile", "profile",
       "[match]\npartition = [\"gpu*\", \"x\"]\nvendor = \"Dell*\"\n[environment]\nNCCL_DEBUG = "
       "\"WARN\"\nNCCL_IB_HCA = false\nN = 1\n");
  seed("fuzz_job_description", "job",
       "name = \"a\"\nnodes = 2\ntasks_per_node = 2\ncpus_per_task = 1\nmemory_gib_per_task = 1\n"
       "command = [\"x y\", \"${A}\", \"${B}\", \"$${C}\"]\nimage = \"i\"\ndata = \"/d\"\n"
       "arguments = \"[a]\"\nvariables = { A = \"${name}\" }\nscript_variables = { B = \"1\" }\n"
       "environment = { E = \"$1\" }\n[slurm]\ncontainer = \"apptainer\"\n"
       "[kubernetes]\ndata_claim = \"d\"\n[mpirun]\nhostfile = \"h\"\ncontainer = \"none\"\n");
  seed("fuzz_profile", "strings",
       "[environment] # \u03ff\n'\u03ff' = \"\"\"\u03ff \\\n  a\"\"\"\"\nA.B.\"\u00a0\" = "
       "'''\n\u03ff'''\nC = [{a = 'x', b.c = [[1.5, 2]]}]\n");
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
       "\3image_id class_id super_class_id path\n1 1 1 bicycle/1.JPG\n2 7 12 a b.JPG\n");
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
  float const values[] = {1, 2, 3, 4};
  write_safetensors(
      make_folder("fuzz_safetensors") / "two", {{"step", "40"}},
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
  weights::write_llmc_file(make_folder("fuzz_llmc") / "padded", config, parameters);
  weights::write_safetensors_weights(make_folder("fuzz_exported_weights") / "gpt2", config, "", parameters);
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
  seed("fuzz_text", "words", "the 'S aaaa  \n\n<|end|>\xc3\xa9 123\t<x>");
}

void seed_documents(const std::filesystem::path& fixtures) {
  for (const auto& entry : std::filesystem::directory_iterator(fixtures)) {
    auto const name = entry.path().filename().string();
    if (name.ends_with(".hwloc.xml")) seed("fuzz_hwloc_xml", name, read_bytes(entry.path()));
    if (name.ends_with(".nccl.xml")) seed("fuzz_nccl_xml", name, read_bytes(entry.path()));
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
  fuzz::seed_messages();
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
