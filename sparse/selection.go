package sparse

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Selector chooses m distinct places among the training examples, in order
// of choice: the first of them are what it would choose for a smaller m. k may
// be nil where a selector says that it does not use it. Pairs makes one that
// chooses (example, output) pairs.
type Selector interface {
	Choose(ctx context.Context, k ntk.Kernel, x linearize.Source, m int, o *Options) ([]int, error)
}

// The streams of random numbers, so that one seed gives independent draws.
const (
	uniformStream = 1 + iota
	stratifiedStream
	choleskyStream
	kmeansStream
	sampleStream
)

// Select chooses m inducing examples of x, or with Pairs m inducing pairs, and
// gathers them. More than x has, or none, is a *CountError.
func Select(ctx context.Context, how Selector, k ntk.Kernel, x linearize.Source, m int, o *Options) (*Inducing, error) {
	if p, ok := how.(pairs); ok {
		return p.selectPairs(ctx, k, x, m, o)
	}
	if m < 1 || m > x.Len() {
		return nil, &CountError{M: m, N: x.Len()}
	}
	rows, err := how.Choose(ctx, k, x, m, o)
	if err != nil {
		return nil, err
	}
	b, err := linearize.Gather(ctx, x, rows)
	if err != nil {
		return nil, err
	}
	return &Inducing{Rows: rows, Batch: b}, nil
}

// Uniform chooses at random without replacement. It does not use the kernel.
type Uniform struct {
	Seed uint64
}

var _ Selector = Uniform{}

// Choose implements Selector.
func (u Uniform) Choose(_ context.Context, _ ntk.Kernel, x linearize.Source, m int, _ *Options) ([]int, error) {
	return rand.New(rand.NewPCG(u.Seed, uniformStream)).Perm(x.Len())[:m], nil
}

// Stratified chooses at random within each class, the classes in proportion
// to their numbers. It does not use the kernel.
type Stratified struct {
	Labels []int // the class of each training example
	Seed   uint64
}

var _ Selector = Stratified{}

// Choose implements Selector. The next class is that with the largest
// n/(2t+1), n its examples and t those it has already (Sainte-Laguë): no
// class is off its share by more than rounding at any m.
func (s Stratified) Choose(_ context.Context, _ ntk.Kernel, x linearize.Source, m int, _ *Options) ([]int, error) {
	n := x.Len()
	if len(s.Labels) != n {
		panic("sparse: labels and examples differ in number")
	}
	members := make(map[int][]int)
	for _, i := range rand.New(rand.NewPCG(s.Seed, stratifiedStream)).Perm(n) {
		members[s.Labels[i]] = append(members[s.Labels[i]], i)
	}
	classes := make([]int, 0, len(members))
	for label := range members {
		classes = append(classes, label)
	}
	slices.Sort(classes)
	taken, rows := make([]int, len(classes)), make([]int, 0, m)
	for range m {
		best, share := 0, 0.0
		for k, label := range classes {
			// n/(2t+1)
			if v := float64(len(members[label])) / float64(2*taken[k]+1); v > share && taken[k] < len(members[label]) {
				best, share = k, v
			}
		}
		rows = append(rows, members[classes[best]][taken[best]])
		taken[best]++
	}
	return rows, nil
}

// Trace chooses the examples with the largest tr Λ, which say the most about
// their own outputs, or the pairs with the largest Λ_aa; ties in the data's
// order. It does not use the kernel.
type Trace struct {
	Sites *gp.Sites // of all training examples
}

var _ Selector = Trace{}

// Choose implements Selector.
func (t Trace) Choose(_ context.Context, _ ntk.Kernel, x linearize.Source, m int, _ *Options) ([]int, error) {
	if t.Sites == nil || t.Sites.F == nil {
		panic("sparse: the sites of the examples are missing")
	}
	_, c := t.Sites.F.Dims()
	n, per := x.Len(), c // rows of a candidate
	if p, ok := x.(pairSource); ok {
		n, per = p.of.Len(), 1
	}
	if _, err := sites.New(t.Sites, n, c); err != nil {
		return nil, err
	}
	traces := make([]float64, n*c/per)
	for i := range n * c {
		traces[i/per] += t.Sites.Lambda.At(i, i%c)
	}
	rows := dense.Range(len(traces))
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(traces[b], traces[a]) })
	return rows[:m], nil
}
