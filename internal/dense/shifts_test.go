package dense

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// shiftsProblem is a random matrix of shifts over an array that ends with the last
// element read.
func shiftsProblem(seed uint64) (s *Shifts, b matrix, src []float64) {
	rnd := source(seed)
	rows, cols := 1+rnd.IntN(6), 1+rnd.IntN(30)
	pitch := cols + rnd.IntN(4)
	offset := make([]int, 1+rnd.IntN(20))
	last := 0
	for p := range offset {
		offset[p] = rnd.IntN(60)
		last = max(last, offset[p])
	}
	src = general(rnd, 1, last+(rows-1)*pitch+cols, 0).Data
	b = func(p, at int) float64 { return src[offset[p]+at/cols*pitch+at%cols] }
	return NewShifts(offset, rows, cols, pitch), b, src
}

// eachShifts runs f with every kernel set on problems that it can do.
func eachShifts(t *testing.T, f func(t *testing.T, seed uint64, s *Shifts, b matrix, src []float64)) {
	eachISA(t, func(t *testing.T) {
		for seed := range uint64(300) {
			if s, b, src := shiftsProblem(seed); s.Usable() {
				f(t, seed, s, b, src)
			}
		}
	})
}

// C = A B + b 1ᵀ, of A as it is and of Aᵀ, and nothing else is written.
func TestShiftsMul(t *testing.T) {
	eachShifts(t, func(t *testing.T, seed uint64, s *Shifts, b matrix, src []float64) {
		rnd := source(seed + 1000)
		k, n := s.Dims()
		m, trans := 1+rnd.IntN(9), rnd.IntN(2) == 0
		a := general(rnd, m, k, rnd.IntN(3))
		left := matrix(func(i, j int) float64 { return a.Data[i*a.Stride+j] })
		if trans {
			a = general(rnd, k, m, rnd.IntN(3))
			left = func(i, j int) float64 { return a.Data[j*a.Stride+i] }
		}
		packed := make([]float64, s.PackedLen(m))
		s.Pack(packed, a, trans)
		bias := general(rnd, 1, m, 0).Data
		if rnd.IntN(2) == 0 {
			bias = nil
		}
		all := general(rnd, 1, m*n+8, 0).Data
		before := append([]float64(nil), all...)
		s.Mul(all[4:4+m*n], m, packed, bias, src)
		for i := range m {
			for j := range n {
				want := dot(left, b, i, j, k)
				if bias != nil {
					want.value, want.size = want.value+bias[i], want.size+math.Abs(bias[i])
				}
				want.close(t, all[4+i*n+j], k+1, "seed %d, element (%d, %d)", seed, i, j)
			}
		}
		sameBits(t, fmt.Sprintf("seed %d, before C", seed), before[:4], all[:4])
		sameBits(t, fmt.Sprintf("seed %d, after C", seed), before[4+m*n:], all[4+m*n:])
	})
}

// C = G Bᵀ + β C.
func TestShiftsMulTrans(t *testing.T) {
	eachShifts(t, func(t *testing.T, seed uint64, s *Shifts, b matrix, src []float64) {
		rnd := source(seed + 2000)
		k, n := s.Dims()
		m, beta := 1+rnd.IntN(9), float64(rnd.IntN(2))
		g := general(rnd, m, n, 0)
		scratch := make([]float64, s.MulTransScratch(m))
		for i := range scratch {
			scratch[i] = math.NaN()
		}
		c := general(rnd, m, k, 0)
		if beta == 0 {
			for i := range c.Data {
				c.Data[i] = math.NaN()
			}
		}
		before := clone(c)
		s.MulTrans(c.Data, m, g.Data, src, scratch, beta)
		for i := range m {
			for j := range k {
				want := dot(func(i, p int) float64 { return g.Data[i*n+p] }, func(p, j int) float64 { return b(j, p) }, i, j, n)
				update(1, want, beta, before.Data[i*k+j]).close(t, c.Data[i*k+j], n, "seed %d, element (%d, %d)", seed, i, j)
			}
		}
	})
}

// A product of up to 256 terms has the bits of the product of gathered rows.
func TestShiftsMulHasTheBitsOfGemm(t *testing.T) {
	eachShifts(t, func(t *testing.T, seed uint64, s *Shifts, b matrix, src []float64) {
		rnd := source(seed + 3000)
		k, n := s.Dims()
		m := 1 + rnd.IntN(9)
		a, gathered := general(rnd, m, k, 0), general(rnd, k, n, 0)
		for p := range k {
			for j := range n {
				gathered.Data[p*n+j] = b(p, j)
			}
		}
		want, got := general(rnd, m, n, 0), make([]float64, m*n)
		Gemm1('N', 'N', 1, a, gathered, 0, want)
		packed := make([]float64, s.PackedLen(m))
		s.Pack(packed, a, false)
		s.Mul(got, m, packed, nil, src)
		sameBits(t, fmt.Sprintf("seed %d", seed), want.Data, got)
	})
}

// The kernels with tiles of 4×12 and vectors of 4 elements give the same bits on every
// processor that has them: the checksum is that of AVX2 and of NEON.
func TestFourLaneBits(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		if active != avx2 && active != neon {
			t.Skip("another tile")
		}
		rnd := source(7)
		uniform := func(rows, cols int) blas64.General {
			a := New(rows, cols)
			for i := range a.Data {
				a.Data[i] = rnd.Float64()
			}
			return a
		}
		const m, n = 70, 90
		l, x := uniform(m, m), uniform(m, n)
		for i := range m {
			l.Data[i*m+i] += 20
		}
		Trsm(blas.Left, blas.NoTrans, 1, blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: m, Stride: m, Data: l.Data}, x)
		s := NewShifts([]int{0, 3, 4, 17, 40}, 6, 9, 12)
		c := New(m, 5)
		s.MulTrans(c.Data, m, uniform(m, 54).Data, uniform(1, 200).Data, make([]float64, s.MulTransScratch(m)), 0)
		h := fnv.New64a()
		for _, v := range append(x.Data, c.Data...) {
			_ = binary.Write(h, binary.LittleEndian, math.Float64bits(v))
		}
		if got := h.Sum64(); got != 0x796af70d0946acf3 {
			t.Fatalf("checksum %#x", got)
		}
	})
}

func TestShiftsPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"no rows":         func() { NewShifts([]int{0}, 0, 4, 4) },
		"no offset":       func() { NewShifts(nil, 1, 4, 4) },
		"negative offset": func() { NewShifts([]int{0, -1}, 1, 4, 4) },
		"packed": func() {
			NewShifts([]int{0}, 1, 4, 4).Pack(make([]float64, 3), blas64.General{Rows: 1, Cols: 1, Stride: 1, Data: []float64{1}}, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
			}()
			f()
		})
	}
}

// BenchmarkShifts are the convolutions of the thesis' network: the result, and the
// gradient of the weight.
func BenchmarkShifts(b *testing.B) {
	for _, c := range []struct{ cin, size, m int }{{1, 28, 3}, {3, 12, 8}, {6, 12, 16}} {
		const kernel = 5
		out := c.size - kernel + 1
		var offset []int
		for at := range c.cin * kernel * kernel {
			ch, y, x := at/(kernel*kernel), at/kernel%kernel, at%kernel
			offset = append(offset, (ch*c.size+y)*c.size+x)
		}
		s, rnd := NewShifts(offset, out, out, c.size), source(1)
		if !s.Usable() {
			b.Skip("no kernel")
		}
		k, n := s.Dims()
		src, a, y := general(rnd, 1, c.cin*c.size*c.size, 0).Data, general(rnd, c.m, k, 0), general(rnd, c.m, n, 0)
		packed, scratch := make([]float64, s.PackedLen(c.m)), make([]float64, s.MulTransScratch(c.m))
		s.Pack(packed, a, false)
		flops := 2 * float64(c.m*k*n)
		b.Run(fmt.Sprintf("mul/cin=%d/size=%d/m=%d", c.cin, c.size, c.m), func(b *testing.B) {
			for b.Loop() {
				s.Mul(y.Data, c.m, packed, nil, src)
			}
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
		})
		b.Run(fmt.Sprintf("multrans/cin=%d/size=%d/m=%d", c.cin, c.size, c.m), func(b *testing.B) {
			for b.Loop() {
				s.MulTrans(a.Data, c.m, y.Data, src, scratch, 0)
			}
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
		})
	}
}
