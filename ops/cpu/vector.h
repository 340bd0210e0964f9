// Vectors of f32, f64, i32 and i64 for the instruction set of this build: a register of Simd's with
// the operators that formulas are written in. Integers wrap around.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/cpu/simd.h"

namespace metronome::METRONOME_ISA {

constexpr std::int64_t kVectorBytes = sizeof(Simd<float>::Reg);

template <class T>
constexpr std::int64_t kLanes = kVectorBytes / static_cast<std::int64_t>(sizeof(T));

/// The lanes of a vector as bits.
template <class T>
using Bits [[gnu::vector_size(kVectorBytes), gnu::may_alias]] =
    std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

/// The outcome of a comparison, lane by lane.
template <class T>
class Mask {
 public:
  using Raw = decltype([] {
    if constexpr (std::is_floating_point_v<T>) {
      return typename Simd<T>::Mask{};
    } else {
      return Bits<T>{};
    }
  }());

  Mask(Raw raw) : raw_(raw) {}  // NOLINT: implicit, as that of Vector
  Raw raw() const { return raw_; }

  friend Mask operator&(Mask a, Mask b) { return static_cast<Raw>(a.raw_ & b.raw_); }
  friend Mask operator|(Mask a, Mask b) { return static_cast<Raw>(a.raw_ | b.raw_); }

 private:
  Raw raw_;
};

template <class T>
class Vector;

template <class T>
  requires std::floating_point<T>
class Vector<T> {
 public:
  using S = Simd<T>;
  using Reg = typename S::Reg;

  Vector() = default;
  explicit Vector(T x) : reg_(S::set(x)) {}
  Vector(Reg reg) : reg_(reg) {}  // NOLINT: implicit, so that kernels take either
  operator Reg() const { return reg_; }

  friend Vector operator+(Vector a, Vector b) { return a.reg_ + b.reg_; }
  friend Vector operator-(Vector a, Vector b) { return a.reg_ - b.reg_; }
  friend Vector operator*(Vector a, Vector b) { return a.reg_ * b.reg_; }
  friend Vector operator/(Vector a, Vector b) { return a.reg_ / b.reg_; }
  friend Vector operator&(Vector a, Vector b) { return from_bits(a.bits() & b.bits()); }
  friend Vector operator|(Vector a, Vector b) { return from_bits(a.bits() | b.bits()); }
  friend Mask<T> operator==(Vector a, Vector b) { return compare<Order::equal>(a, b); }
  friend Mask<T> operator!=(Vector a, Vector b) { return compare<Order::not_equal>(a, b); }
  friend Mask<T> operator<(Vector a, Vector b) { return compare<Order::less>(a, b); }
  friend Mask<T> operator<=(Vector a, Vector b) { return compare<Order::less_equal>(a, b); }
  friend Mask<T> operator>(Vector a, Vector b) { return compare<Order::less>(b, a); }
  friend Mask<T> operator>=(Vector a, Vector b) { return compare<Order::less_equal>(b, a); }

  Bits<T> bits() const { return reinterpret_cast<Bits<T>>(reg_); }
  static Vector from_bits(Bits<T> bits) { return reinterpret_cast<Reg>(bits); }

 private:
  template <Order kOrder>
  static Mask<T> compare(Vector a, Vector b) {
    return S::template compare<kOrder>(a.reg_, b.reg_);
  }

  Reg reg_;
};

template <class T>
  requires std::integral<T>
class Vector<T> {
 public:
  using Reg = Bits<T>;

  Vector() = default;
  explicit Vector(T x) : reg_(Reg{} + x) {}
  Vector(Reg reg) : reg_(reg) {}  // NOLINT: implicit, as above
  operator Reg() const { return reg_; }

  friend Vector operator+(Vector a, Vector b) { return wrapped(unsigned_of(a) + unsigned_of(b)); }
  friend Vector operator-(Vector a, Vector b) { return wrapped(unsigned_of(a) - unsigned_of(b)); }
  friend Vector operator*(Vector a, Vector b) { return wrapped(unsigned_of(a) * unsigned_of(b)); }
  friend Mask<T> operator==(Vector a, Vector b) { return Bits<T>(a.reg_ == b.reg_); }
  friend Mask<T> operator!=(Vector a, Vector b) { return Bits<T>(a.reg_ != b.reg_); }
  friend Mask<T> operator<(Vector a, Vector b) { return Bits<T>(a.reg_ < b.reg_); }
  friend Mask<T> operator<=(Vector a, Vector b) { return Bits<T>(a.reg_ <= b.reg_); }
  friend Mask<T> operator>(Vector a, Vector b) { return Bits<T>(a.reg_ > b.reg_); }
  friend Mask<T> operator>=(Vector a, Vector b) { return Bits<T>(a.reg_ >= b.reg_); }

 private:
  using Unsigned [[gnu::vector_size(kVectorBytes), gnu::may_alias]] = std::make_unsigned_t<T>;
  static Unsigned unsigned_of(Vector x) { return reinterpret_cast<Unsigned>(x.reg_); }
  static Vector wrapped(Unsigned x) { return reinterpret_cast<Reg>(x); }

  Reg reg_;
};

// ---- memory ------------------------------------------------------------------------------------

template <class T>
inline Vector<T> load(const T* p) {
  typename Vector<T>::Reg reg;
  std::memcpy(&reg, p, sizeof(reg));
  return reg;
}

/// The first `count` elements, fewer than a vector; the other lanes are zero.
template <class T>
inline Vector<T> load(const T* p, std::int64_t count) {
  using F = std::conditional_t<sizeof(T) == 4, float, double>;  // moves bits alone
  const auto reg = Simd<F>::load(reinterpret_cast<const F*>(p), Simd<F>::mask(count));
  return reinterpret_cast<typename Vector<T>::Reg>(reg);
}

template <class T>
inline void store(T* p, const Vector<T>& x) {
  const typename Vector<T>::Reg reg = x;
  std::memcpy(p, &reg, sizeof(reg));
}

template <class T>
inline void store(T* p, const Vector<T>& x, std::int64_t count) {
  using F = std::conditional_t<sizeof(T) == 4, float, double>;
  const typename Vector<T>::Reg reg = x;
  Simd<F>::store(reinterpret_cast<F*>(p), Simd<F>::mask(count),
                 reinterpret_cast<typename Simd<F>::Reg>(reg));
}

// ---- lane by lane ------------------------------------------------------------------------------

/// yes where the lanes of the mask are set, else no.
template <class T>
inline Vector<T> select(const Mask<T>& mask, const Vector<T>& yes, const Vector<T>& no) {
  if constexpr (std::is_floating_point_v<T>) {
    return Simd<T>::select(mask.raw(), yes, no);
  } else {
    return (mask.raw() & Bits<T>(yes)) | (~mask.raw() & Bits<T>(no));
  }
}

/// yes where a < b, else no (also where one of them is NaN).
template <class T>
inline Vector<T> if_less(const Vector<T>& a, const Vector<T>& b, const Vector<T>& yes,
                         const Vector<T>& no) {
  return Simd<T>::if_less(a, b, yes, no);
}

/// The first `count` lanes of `yes`, the others of `no`.
template <class T>
inline Vector<T> first(std::int64_t count, const Vector<T>& yes, const Vector<T>& no) {
  if constexpr (std::is_floating_point_v<T>) {
    return Simd<T>::select(Simd<T>::mask(count), yes, no);
  } else {
    Bits<T> places;
    for (std::int64_t i = 0; i < kLanes<T>; ++i) places[i] = static_cast<T>(i);
    return select(Mask<T>(Bits<T>(places < static_cast<T>(count))), yes, no);
  }
}

/// a * b + c, as Simd's.
template <class T>
inline Vector<T> fmadd(const Vector<T>& a, const Vector<T>& b, const Vector<T>& c) {
  return Simd<T>::fma(a, b, c);
}
/// c - a * b, in the same way.
template <class T>
inline Vector<T> fnmadd(const Vector<T>& a, const Vector<T>& b, const Vector<T>& c) {
  return Simd<T>::fma(-static_cast<typename Simd<T>::Reg>(a), b, c);
}

/// The larger one; NaN where one of them is.
template <class T>
inline Vector<T> maximum(const Vector<T>& a, const Vector<T>& b) {
  if constexpr (std::is_floating_point_v<T>) {
    return select(a != a, a, Vector<T>(Simd<T>::max(a, b)));
  } else {
    return select(a > b, a, b);
  }
}
template <class T>
inline Vector<T> minimum(const Vector<T>& a, const Vector<T>& b) {
  if constexpr (std::is_floating_point_v<T>) {
    return select(a != a, a, Vector<T>(Simd<T>::min(a, b)));
  } else {
    return select(a < b, a, b);
  }
}

/// x, but no more than `most` (NaN stays).
template <class T>
inline Vector<T> clamp_max(const Vector<T>& x, const Vector<T>& most) {
  return Simd<T>::min(most, x);
}
/// x between two ends (NaN stays).
template <class T>
inline Vector<T> clamp(const Vector<T>& x, const Vector<T>& least, const Vector<T>& most) {
  return Simd<T>::min(most, Simd<T>::max(least, x));
}

/// -x, but a NaN stays the one it is, so that bits do not depend on which operand of a product
/// comes first: from -0, of which the compiler is not told, as it would turn the sign's bit
/// instead.
template <class T>
inline Vector<T> neg(const Vector<T>& x) {
  if constexpr (std::is_floating_point_v<T>) {
    typename Simd<T>::Reg zero = Simd<T>::set(T(-0.0));
#ifdef __x86_64__
    asm("" : "+v"(zero));
#else
    asm("" : "+w"(zero));
#endif
    return zero - static_cast<typename Simd<T>::Reg>(x);
  } else {
    return Vector<T>(T(0)) - x;
  }
}
template <class T>
inline Vector<T> abs(const Vector<T>& x) {
  if constexpr (std::is_floating_point_v<T>) {
    return Vector<T>::from_bits(x.bits() & ~Vector<T>(T(-0.0)).bits());
  } else {
    return select(x < Vector<T>(0), neg(x), x);
  }
}
template <class T>
inline Vector<T> sqrt(const Vector<T>& x) {
  return Simd<T>::sqrt(x);
}
template <class T>
inline Vector<T> floor(const Vector<T>& x) {
  return Simd<T>::template round<Rounding::down>(x);
}
template <class T>
inline Vector<T> ceil(const Vector<T>& x) {
  return Simd<T>::template round<Rounding::up>(x);
}
/// Halves to the even neighbour.
template <class T>
inline Vector<T> round(const Vector<T>& x) {
  return Simd<T>::template round<Rounding::to_nearest>(x);
}
template <class T>
inline Vector<T> trunc(const Vector<T>& x) {
  return Simd<T>::template round<Rounding::to_zero>(x);
}

/// f of each lane, of one vector or more.
template <class T, class F, class... More>
inline Vector<T> each_lane(const F& f, const Vector<T>& x, const More&... more) {
  typename Vector<T>::Reg reg = x;
  const auto lane = [](const Vector<T>& v, std::int64_t i) {
    return static_cast<typename Vector<T>::Reg>(v)[i];
  };
  for (std::int64_t i = 0; i < kLanes<T>; ++i) reg[i] = f(reg[i], lane(more, i)...);
  return reg;
}

}  // namespace metronome::METRONOME_ISA
