// Package largest has the expectations of softmax and its square under independent noise. With independent standard
// Gumbel variables g_j, softmax(f)_j is the probability that f_j + g_j is the largest of all f_k + g_k. Let f_j =
// r_j + √d ε_j with independent standard normal ε_j. Then the sums √d ε_j + g_j are independent with one
// distribution, with CDF Ψ and density ψ, and
//
//	E softmax(f)_j  = ∫ ψ(t − r_j) Π_{k≠j} Ψ(t − r_k) dt
//	E softmax(f)²_j = ∫ ψ₂(t − r_j) Π_{k≠j} Ψ(t − r_k) dt,
//
// where ψ₂ is the density of √d ε − log w for w from a Gamma distribution with shape 2, because softmax(f)²_j = ∫ w
// e^{−w} Π_{k≠j} exp(−w e^{f_k−f_j}) dw. Both integrands are smooth and decay fast (E20): 32 nodes of the
// trapezoidal rule leave an error of 1e-6.
package largest

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/vector"
)

const (
	nodes  = vector.LargestNodes
	phases = vector.LargestPhases // nodes are rounded to a multiple of step/phases from r_j
	tail   = 1e-6                 // probability under ψ left out at each end
	beyond = 1e-12

	// Least and most are the smallest and the largest variance d.
	Least, most = 4, 1 << 16
	perOctave   = 4 // variances in each factor of 2
)

// A Noise has tables of the distribution of √d ε + g.
type Noise struct {
	Variance float64 // d

	step    float64 // distance of the nodes
	columns int     // nodes of a phase
	// Ψ, ψ/Ψ and ψ₂/Ψ, phases×columns: column k of phase q is at first + (k + q/phases)·step.
	cdf, density, second []float64
}

// noises are computed when first asked for.
var noises [64]struct {
	once  sync.Once
	noise *Noise
}

// NoiseUpTo returns a Noise with a variance of at most v. For v up to 65,536 the variance is more than .84 v. v
// must be at least Least.
func NoiseUpTo(v float64) *Noise {
	level := int(math.Floor(perOctave * math.Log2(min(v, most)/Least)))
	n := &noises[level]
	n.once.Do(func() { n.noise = newNoise(Least * math.Exp2(float64(level)/perOctave)) })
	return n.noise
}

func newNoise(d float64) *Noise {
	sd := math.Sqrt(d + math.Pi*math.Pi/6)
	n := &Noise{Variance: d}
	// A grid over the range where ψ matters.
	from, spacing := -8*sd, sd/64
	x := make([]float64, int((16*sd+40)/spacing))
	for i := range x {
		x[i] = from + float64(i)*spacing
	}
	psi, _ := densities(x, d)
	cdf := cumulative(psi, spacing)
	lo, hi := search(cdf, tail), search(cdf, 1-tail)
	n.step = (x[hi] - x[lo]) / (nodes - 1)
	end := hi
	for end < len(x)-1 && psi[end] > beyond/sd {
		end++
	}
	n.columns = int((x[end]-x[lo])/n.step) + 1 + nodes
	n.tabulate(x[lo], from)
	return n
}

// tabulate fills the tables for arguments from first on. Ψ is the sum of ψ from the far left, from, on.
func (n *Noise) tabulate(first, from float64) {
	spacing := n.step / phases
	before := int((first - from) / spacing)
	x := make([]float64, before+n.columns*phases)
	for i := range x {
		x[i] = first + float64(i-before)*spacing
	}
	psi, psi2 := densities(x, n.Variance)
	cdf := cumulative(psi, spacing)
	for _, t := range []*[]float64{&n.cdf, &n.density, &n.second} {
		*t = make([]float64, phases*n.columns)
	}
	for i, p := range cdf[before:] {
		at := i%phases*n.columns + i/phases
		n.cdf[at], n.density[at], n.second[at] = min(p, 1), psi[before+i]/p, psi2[before+i]/p
	}
}

// densities returns ψ and ψ₂ at each x, by the trapezoidal rule over the Gumbel variable y = −log w. The step
// leaves an error of e^{−2π·(π/2)/.4} = 2e-11.
func densities(x []float64, d float64) (psi, psi2 []float64) {
	const lo, hi, step = -4.4, 30, .4
	psi, psi2 = make([]float64, len(x)), make([]float64, len(x))
	e := make([]float64, len(x))
	for y := lo; y < hi; y += step {
		for i, v := range x {
			e[i] = -(v - y) * (v - y) / (2 * d)
		}
		vector.Exp(e, e)
		w := math.Exp(-y)
		g := step * w * math.Exp(-w) / math.Sqrt(2*math.Pi*d)
		dense.Axpy(psi, g, e)
		dense.Axpy(psi2, g*w, e)
	}
	return psi, psi2
}

// cumulative returns the integral of a density up to each of equally spaced points.
func cumulative(density []float64, spacing float64) []float64 {
	sums := make([]float64, len(density))
	sum := 0.0
	for i, v := range density {
		sums[i] = sum + v*spacing/2
		sum += v * spacing
	}
	return sums
}

// search returns the first index i with v[i] ≥ p, or the last index, for an ascending v.
func search(v []float64, p float64) int {
	for i, u := range v {
		if u >= p {
			return i
		}
	}
	return len(v) - 1
}

// Sums are sums of E softmax(f) and E softmax(f)² over many means r.
type Sums struct {
	noise         *Noise
	c             int
	first, second []float64 // C×lanes
	at            []int
}

// NewSums returns empty sums for c classes.
func NewSums(n *Noise, c int) *Sums {
	return &Sums{noise: n, c: c, first: make([]float64, c*vector.LargestLanes), second: make([]float64, c*vector.LargestLanes)}
}

// Add adds the terms for each column r of the given matrix, C×n.
func (s *Sums) Add(r blas64.General) {
	n := s.noise
	if r.Rows != s.c {
		panic("largest: wrong number of classes")
	}
	if need := r.Rows * r.Stride; len(s.at) < need {
		s.at = make([]int, need)
	}
	vector.LargestPlaces(s.at, r.Data, phases/n.step, (n.columns-nodes)*phases, n.columns, s.c, r.Stride, r.Cols)
	vector.AddLargest(s.first, s.second, n.cdf, n.density, n.second, s.at, s.c, r.Stride, r.Cols)
}

// To writes the sums of E softmax(f) to first and the sums of E softmax(f)² to second, C numbers each.
func (s *Sums) To(first, second []float64) {
	for j := range s.c {
		lo, hi := j*vector.LargestLanes, (j+1)*vector.LargestLanes
		first[j] = s.noise.step * floats.Sum(s.first[lo:hi])
		second[j] = s.noise.step * floats.Sum(s.second[lo:hi])
	}
}
