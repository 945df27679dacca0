// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/key_seal.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "muster/error.hpp"

namespace muster::bootstrap {
namespace {

using Bytes = std::vector<std::uint8_t>;

// The first byte of a sealed key.
constexpr std::uint8_t with_munge = 1, with_user_key = 2;
static_assert(control::key_bytes == crypto_secretbox_KEYBYTES);

Bytes encrypt(const Bytes& plain, const control::Key& key) {
  Bytes sealed(crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + plain.size());
  randombytes_buf(sealed.data(), crypto_secretbox_NONCEBYTES);
  crypto_secretbox_easy(sealed.data() + crypto_secretbox_NONCEBYTES, plain.data(), plain.size(),
                        sealed.data(), key.data());
  return sealed;
}

// Empty when the key is another one.
Bytes decrypt(const Bytes& sealed, const control::Key& key) {
  constexpr std::size_t overhead = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
  if (sealed.size() <= overhead) return {};
  Bytes plain(sealed.size() - overhead);
  bool const good =
      crypto_secretbox_open_easy(plain.data(), sealed.data() + crypto_secretbox_NONCEBYTES,
                                 sealed.size() - crypto_secretbox_NONCEBYTES, sealed.data(), key.data()) == 0;
  return good ? plain : Bytes{};
}

// srun's ranks of one node exchange nothing over the network.
bool is_step_of_one_node() { return get_env("SLURM_STEP_NUM_NODES") == "1"; }

}  // namespace

CredentialCodec& KeySeal::munge() {
  if (!munge_) {
    if (!make_munge_) throw Error(ErrorCode::system, "it is used below srun only");
    munge_ = make_munge_();
  }
  return *munge_;
}

// Only one credential is made: strangers send any number of process reports.
bool KeySeal::munge_answers() try {
  if (!munge_answers_) {
    munge_answers_ = false;
    munge().encode({});
    munge_answers_ = true;
  }
  return *munge_answers_;
} catch (const Error&) {
  return false;
}

bool KeySeal::needs_only_munge(std::span<const std::uint8_t> sealed) {
  return !sealed.empty() && sealed.front() == with_munge;
}

Bytes KeySeal::seal(std::span<const std::uint8_t> plain, bool warns) {
  Bytes content(plain.begin(), plain.end());
  std::uint8_t kind = 0;
  if (user_key_) {
    content = encrypt(content, *user_key_);
    kind |= with_user_key;
  }
  try {
    content = munge().encode(content);
    kind |= with_munge;
  } catch (const Error& error) {
    log::debug("join: PMIx: not sealed with MUNGE: {}", error.what());
    // Another code: there is no libmunge, so Slurm does not use MUNGE either.
    bool const munged_failed = make_munge_ && error.code() == ErrorCode::system;
    if (warns && munged_failed && !user_key_ && !is_step_of_one_node())
      log::warn(
          "join: on host {} MUNGE cannot seal the job's key ({}): PMIx sends it in plain text; have munged "
          "answer on every node, or set MUSTER_KEY_FILE, or MUSTER_MUNGE_LIBRARY=none to hide this line",
          host_name(), error.what());
  }
  content.insert(content.begin(), kind);
  return content;
}

Bytes KeySeal::decode_credential(std::span<const std::uint8_t> credential) try {
  return munge().decode(credential);
} catch (const Error& error) {
  throw Error(
      ErrorCode::environment,
      fmt::format("join: on host {} MUNGE cannot open the job's key ({}): start munged on every node, "
                  "or set MUSTER_MUNGE_LIBRARY=none to send the key unsealed",
                  host_name(), error.what()));
}

Bytes KeySeal::open(std::span<const std::uint8_t> sealed) {
  if (sealed.empty() || sealed.front() > (with_munge | with_user_key))
    throw Error(ErrorCode::system, "join: a key in rank 0's hello is damaged");
  auto const kind = sealed.front();
  // Otherwise a host that changes packets, or anyone who sends a report, could do without MUNGE's seal.
  if (kind == 0 && !user_key_ && munge_answers())
    throw Error(
        ErrorCode::environment,
        fmt::format("join: rank 0 sent the job's key unsealed, but MUNGE works on host {}: start munged "
                    "on rank 0's host, or set MUSTER_MUNGE_LIBRARY=none for all ranks",
                    host_name()));
  auto const rest = sealed.subspan(1);
  auto content = (kind & with_munge) != 0 ? decode_credential(rest) : Bytes(rest.begin(), rest.end());
  if (((kind & with_user_key) != 0) == user_key_.has_value()) {
    if (user_key_) content = decrypt(content, *user_key_);
    if (!content.empty()) return content;
  }
  throw Error(
      ErrorCode::environment,
      fmt::format("join: MUSTER_KEY or MUSTER_KEY_FILE is not the same on host {} and on rank 0: give "
                  "every rank the same key, or none",
                  host_name()));
}

}  // namespace muster::bootstrap
