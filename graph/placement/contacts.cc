#include "graph/placement/contacts.h"

#include <algorithm>
#include <utility>

namespace metronome::plan {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::size_t kWorkOfPiece = 4;

/// Appends steps; they are part of the last ones if the block is the same.
void append(std::vector<Contact>& list, const Contact& contact) {
  if (!list.empty() && list.back().block == contact.block) {
    list.back().end = contact.end;
  } else {
    list.push_back(contact);
  }
}

}  // namespace

Contacts::Contacts(std::span<const HeldBlock> blocks) : saved_at_(blocks.size(), -1) {
  for (const HeldBlock& block : blocks) {
    begin_.push_back(block.begin);
    end_.push_back(block.end);
  }
  for (auto& lists : contacts_) lists.resize(blocks.size());
}

void Contacts::put_in(std::int32_t block, std::span<const std::int32_t> met, std::size_t below) {
  save(block);
  for (const StackSide side : {kBelow, kAbove}) {
    find(side, block, met, below);
    const Contact self{begin_[block], end_[block], block};
    for (const Contact& contact : contacts_[side][block]) {
      if (contact.block == kNone) continue;
      save(contact.block);
      replace(contacts_[opposite(side)][contact.block], contact, {&self, 1});
    }
  }
}

void Contacts::take_out(std::int32_t block) {
  save(block);
  for (const StackSide side : {kBelow, kAbove}) {
    for (const Contact& contact : contacts_[side][block]) {
      if (contact.block == kNone) continue;
      save(contact.block);
      replace(contacts_[opposite(side)][contact.block], contact, contacts_[opposite(side)][block]);
    }
  }
}

/// Looks from the block away, until each of its steps has met another.
void Contacts::find(StackSide side, std::int32_t block, std::span<const std::int32_t> met,
                    std::size_t below) {
  List& found = contacts_[side][block];
  found.clear();
  open_.assign(1, {begin_[block], end_[block], kNone});
  for (std::size_t i = below; !open_.empty() && (side == kBelow ? i > 0 : i < met.size());
       side == kBelow ? --i : ++i) {
    const std::int32_t other = met[side == kBelow ? i - 1 : i];
    work_ += kWorkOfPiece * open_.size();
    for (std::size_t k = open_.size(); k-- > 0;) {
      const Contact open = open_[k];
      const Contact hit{std::max(open.begin, begin_[other]), std::min(open.end, end_[other]),
                        other};
      if (hit.begin > hit.end) continue;
      found.push_back(hit);
      open_[k] = open_.back();
      open_.pop_back();
      if (open.begin < hit.begin) open_.push_back({open.begin, hit.begin - 1, kNone});
      if (hit.end < open.end) open_.push_back({hit.end + 1, open.end, kNone});
    }
  }
  found.insert(found.end(), open_.begin(), open_.end());
  std::ranges::sort(found, {}, &Contact::begin);
}

/// Replaces what a list has at those steps by what another has there.
void Contacts::replace(List& list, const Contact& at, std::span<const Contact> by) {
  made_.clear();
  for (const Contact& contact : list) {
    if (contact.begin >= at.begin) break;
    append(made_, {contact.begin, std::min(contact.end, at.begin - 1), contact.block});
  }
  for (auto contact = std::ranges::lower_bound(by, at.begin, {}, &Contact::end);
       contact != by.end() && contact->begin <= at.end; ++contact) {
    append(made_,
           {std::max(contact->begin, at.begin), std::min(contact->end, at.end), contact->block});
  }
  for (const Contact& contact : list) {
    if (contact.end <= at.end) continue;
    append(made_, {std::max(contact.begin, at.end + 1), contact.end, contact.block});
  }
  work_ += kWorkOfPiece * list.size();
  std::swap(list, made_);
}

void Contacts::save(std::int32_t block) {
  if (std::exchange(saved_at_[block], mark_) == mark_) return;
  if (saves_ == saved_.size()) saved_.emplace_back();
  Saved& saved = saved_[saves_++];
  saved.block = block;
  for (const StackSide side : {kBelow, kAbove}) saved.contacts[side] = contacts_[side][block];
}

void Contacts::mark() {
  ++mark_;
  saves_ = 0;
}

void Contacts::undo() {
  for (std::size_t i = 0; i < saves_; ++i) {
    for (const StackSide side : {kBelow, kAbove}) {
      std::swap(contacts_[side][saved_[i].block], saved_[i].contacts[side]);
    }
  }
}

}  // namespace metronome::plan
