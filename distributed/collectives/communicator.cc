#include "distributed/collectives/communicator.h"

#include <cstring>

namespace metronome::distributed {
namespace {

void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

void Communicator::all_to_all(std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t part = from.size() / static_cast<std::size_t>(size());
  std::vector<OutgoingMessage> sent;
  std::vector<IncomingMessage> received;
  for (int r = 0; r < size(); ++r) {
    const std::size_t begin = static_cast<std::size_t>(r) * part;
    if (r == rank()) {
      copy(from.subspan(begin, part), to.subspan(begin, part));
      continue;
    }
    sent.push_back({r, from.subspan(begin, part)});
    received.push_back({r, to.subspan(begin, part)});
  }
  begin("all_to_all", from.size());
  transfer(sent, received);
  end();
}

void Communicator::all_gather(std::span<const std::byte> from, std::span<std::byte> to) {
  std::vector<OutgoingMessage> sent;
  std::vector<IncomingMessage> received;
  for (int r = 0; r < size(); ++r) {
    const auto part = to.subspan(static_cast<std::size_t>(r) * from.size(), from.size());
    if (r == rank()) {
      copy(from, part);
      continue;
    }
    sent.push_back({r, from});
    received.push_back({r, part});
  }
  begin("all_gather", from.size());
  transfer(sent, received);
  end();
}

void Communicator::broadcast(std::span<std::byte> bytes, int root) {
  std::vector<OutgoingMessage> sent;
  std::vector<IncomingMessage> received;
  for (int r = 0; r < size() && rank() == root; ++r) {
    if (r != root) sent.push_back({r, bytes});
  }
  if (rank() != root) received.push_back({root, bytes});
  begin("broadcast", bytes.size());
  transfer(sent, received);
  end();
}

}  // namespace metronome::distributed
