// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "muster/error.hpp"
#include "transport/handshake.hpp"

using namespace muster;
using namespace muster::control;

namespace {

bool match(const SessionKeys& server, const SessionKeys& client) {
  return server.send == client.receive && server.receive == client.send;
}

}  // namespace

TEST_CASE("both sides of a handshake get the same keys, one for each direction, new each time") {
  auto const key = random_key();
  KeyPair const client, server;
  HandshakeTranscript const transcript{1, client.public_key(), server.public_key()};
  auto const keys = server_keys(key, transcript, server);
  CHECK(match(keys, client_keys(key, transcript, client)));
  CHECK(keys.send != keys.receive);
  KeyPair const again;
  HandshakeTranscript const later{1, client.public_key(), again.public_key()};
  CHECK(server_keys(key, later, again).send != keys.send);
}

TEST_CASE("a listener who learns the job's key later does not get the keys of a connection") {
  auto const key = random_key();
  KeyPair const client, server, listener;
  HandshakeTranscript const recorded{1, client.public_key(), server.public_key()};
  auto const keys = server_keys(key, recorded, server);
  CHECK_FALSE(match(keys, client_keys(key, recorded, listener)));
  CHECK_FALSE(match(server_keys(key, recorded, listener), client_keys(key, recorded, client)));
}

TEST_CASE("the key exchange alone does not give the keys without the job's key") {
  KeyPair const client, server;
  HandshakeTranscript const transcript{1, client.public_key(), server.public_key()};
  CHECK_FALSE(
      match(server_keys(random_key(), transcript, server), client_keys(random_key(), transcript, client)));
}

TEST_CASE("a public key that makes the exchange's result known to all is refused") {
  KeyPair const client;
  HandshakeTranscript const transcript{1, client.public_key(), PublicKey{}};
  CHECK_THROWS_AS(client_keys(random_key(), transcript, client), Error);
}

TEST_CASE("a proof for another purpose or leader, or with another key, is none") {
  auto const key = random_key();
  auto const mine = purpose_key(key, purpose::control_plane, 3);
  CHECK(mine == purpose_key(key, purpose::control_plane, 3));
  CHECK(mine != purpose_key(key, purpose::recovery, 3));
  CHECK(mine != purpose_key(key, purpose::control_plane, 4));
  CHECK(mine != purpose_key(random_key(), purpose::control_plane, 3));
}
