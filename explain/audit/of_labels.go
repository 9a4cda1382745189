package audit

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// StageRegressions is the stage of Options.Progress of OfLabels.
const StageRegressions = "regressions"

// The exponents p and noise variances that OfLabels tries: it regresses labels with the kernel ρᵖ, where ρ is the
// correlation of two examples, and the noise is relative to the prior variance 1.
var (
	labelPowers = []int{1, 2, 3, 4, 6, 8, 12}
	labelNoises = []float64{0.001, 0.01, 0.03, 0.1, 0.3, 1}
)

// mostTried is the largest number of examples on which regressions are compared; of more examples, a random sample
// is used.
var mostTried = 1000 // a variable only so that tests can change it

// A Regression holds the settings of a regression of labels, and its leave-one-out error.
type Regression struct {
	Power int     // of the correlation, from 1
	Noise float64 // variance of the targets, relative to the prior variance of the regression function
	Error float64 // mean over examples of the squared distance from leave-one-out to the target
}

// A LabelAudit is an Audit by a regression of the labels.
type LabelAudit struct {
	Audit
	Regression  Regression   // the chosen one, with the smallest leave-one-out error
	Tried       []Regression // in the order in which they were tried
	Temperature float64      // probabilities are softmax(mean/Temperature); 0 for real targets
}

// Shuffles linearizes examples at parameters that have seen no label, for OfLabels: each
// draw permutes the elements of every parameter tensor at random, so that the network keeps its
// architecture and the sizes of its weights. at linearizes the examples at the parameters it is
// given.
func Shuffles(theta []float64, params []linearize.Param, draws int, seed uint64, at func(theta []float64) (*linearize.Batch, error)) iter.Seq2[*linearize.Batch, error] {
	return func(yield func(*linearize.Batch, error) bool) {
		for draw := range draws {
			rng := rand.New(rand.NewPCG(seed, uint64(draw)))
			moved := slices.Clone(theta)
			for _, p := range params {
				v := moved[p.Offset : p.Offset+p.Len()]
				rng.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
			}
			if x, err := at(moved); !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// OfLabels audits labels y by a regression of the labels on the Jacobian. classes is the number of classes. y is then
// N×1 with classes from 0, and the target of class c is 1 − 1/C for the label's class and −1/C otherwise, or ±½ if
// two classes share one output. If classes is 0, y is N×K with real targets, and each column is centered and divided
// by its standard deviation. The regression function of each column has the prior N(0, ρᵖ), where the power is taken
// element by element, and ρ is the correlation
//
//	ρ(x,x') = κ̄(x,x') / √(κ̄(x,x) κ̄(x',x')),   κ̄ = Σ_c κ_cc over outputs and draws
//
// of the examples, linearized at the parameters of each draw. draws yields the same examples in the
// same order each time. Leave-one-out is exact [rw 5.4.2]. The power p and the noise variance are
// those whose leave-one-out predictions fit the recorded labels best; with more than 1,000 examples,
// a random sample of 1,000 decides.
//
// The Jacobians of a network that was trained until it repeated wrong labels depend on these
// labels, so that leave-one-out is too optimistic and chooses too small a power. Use parameters
// that depend on no label, as Shuffles does: this finds more of the wrong labels and suggests the
// right one more often (studies/records/suspects.md).
//
// Link, Calibration and LeaveOneOut of the options are not used. Probabilities are a softmax of the predictions, at
// the temperature that maximizes the likelihood of the recorded labels. The density of a real target is Gaussian; its
// variance is that of leave-one-out times a factor that gives the residuals a mean square of 1. Supports are in units
// of the regression target for classes, and in units of y for real targets. Near-duplicates are found for any number
// of examples unless MostPaired is negative.
//
// It holds three N×N matrices beside one draw, and computes the kernel of each output of each draw. It tries 42
// regressions on at most 1,000 examples; the final regression on all examples takes two matrix products of order N.
func OfLabels(ctx context.Context, k ntk.Kernel, draws iter.Seq2[*linearize.Batch, error], y *mat.Dense, classes int, o *Options) (*LabelAudit, error) {
	l := &labelAuditor{kernel: k, given: y, classes: classes}
	if o != nil {
		l.o = *o
	}
	for x, err := range draws {
		if err == nil {
			err = l.add(ctx, x)
		}
		if err != nil {
			return nil, err
		}
	}
	if l.first == nil {
		panic("audit: no draw of the parameters")
	}
	// Turn κ̄ into ρ. An example of prior variance 0 correlates with no other.
	sd := make([]float64, l.n)
	left := 0
	for i := range sd {
		v := l.rho.At(i, i)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("audit: the prior variance of training example %d is %v", i, v)
		}
		if sd[i] = math.Sqrt(v); v == 0 {
			left++
		}
	}
	if left == l.n {
		return nil, &score.RowsError{Rows: l.n}
	}
	for i := range sd {
		row := l.rho.RawRowView(i)
		for j := range row {
			switch {
			case i == j:
				row[j] = 1
			case sd[i] == 0 || sd[j] == 0:
				row[j] = 0
			default:
				row[j] = row[j] / sd[i] / sd[j]
			}
		}
	}
	// Try all regressions on a sample, and regress all labels by the best one.
	few := l.sample(mostTried)
	total := len(labelPowers) * len(labelNoises)
	for _, power := range labelPowers {
		for _, noise := range labelNoises {
			r, err := few.try(ctx, Regression{Power: power, Noise: noise})
			if err != nil {
				return nil, err
			}
			l.found.Tried = append(l.found.Tried, r)
			l.o.Show(StageRegressions, len(l.found.Tried), total)
		}
	}
	l.found.Regression = slices.MinFunc(l.found.Tried, func(a, b Regression) int {
		if a.Error < b.Error {
			return -1
		}
		return 1
	})
	if _, err := l.try(ctx, l.found.Regression); err != nil {
		return nil, err
	}
	return &l.found, l.judge(ctx)
}

// sample returns an auditor of a random sample of at most that many examples.
func (l *labelAuditor) sample(most int) *labelAuditor {
	if l.n <= most {
		return l
	}
	rows := rand.New(rand.NewPCG(0, 0x7a1e)).Perm(l.n)[:most]
	s := &labelAuditor{rho: mat.NewDense(most, most, nil), target: mat.NewDense(most, l.c, nil)}
	s.n, s.c, s.o = most, l.c, l.o
	for a, i := range rows {
		s.target.SetRow(a, l.target.RawRowView(i))
		for b, j := range rows {
			s.rho.Set(a, b, l.rho.At(i, j))
		}
	}
	s.size()
	return s
}

// size allocates the memory of a regression.
func (l *labelAuditor) size() {
	l.inverse = dense.New(l.n, l.n)
	l.work = blas64.Symmetric{N: l.n, Stride: l.n, Data: make([]float64, l.n*l.n), Uplo: blas.Upper}
	l.diag = make([]float64, l.n)
}

// A labelAuditor holds what an audit of labels is computed from.
type labelAuditor struct {
	auditor
	kernel  ntk.Kernel
	given   *mat.Dense // y
	classes int
	labels  []int // classes; nil for real targets
	first   *linearize.Batch
	outputs int
	target  *mat.Dense       // N×c
	scale   []float64        // standard deviations of the columns of y; nil for classes
	rho     *mat.Dense       // κ̄, then ρ
	work    blas64.Symmetric // ρᵖ + σ²I, its factor, and at last its inverse Q; upper
	inverse blas64.General   // of the factor U: Q = U⁻¹U⁻ᵀ
	diag    []float64        // of Q
	found   LabelAudit
}

// add adds the kernel of a draw.
func (l *labelAuditor) add(ctx context.Context, x *linearize.Batch) error {
	n, c := x.Len(), x.Outputs()
	if l.first == nil {
		if err := l.begin(x); err != nil {
			return err
		}
	}
	if n != l.n || c != l.outputs {
		panic("audit: draws of different examples")
	}
	block := dense.View(blas64.General{Rows: n, Cols: n, Stride: n, Data: l.work.Data})
	for j := range c {
		own := x.Output(j)
		if k, ok := l.kernel.(interface {
			BlockContextTo(ctx context.Context, dst *mat.Dense, a, b *linearize.Batch) error
		}); ok {
			if err := k.BlockContextTo(ctx, block, own, own); err != nil {
				return err
			}
		} else {
			l.kernel.BlockTo(block, own, own)
		}
		l.rho.Add(l.rho, block)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// begin checks the labels against the first draw, x, and allocates memory for its examples.
func (l *labelAuditor) begin(x *linearize.Batch) error {
	n, c := x.Len(), x.Outputs()
	if l.given.RawMatrix().Rows != n {
		panic("audit: labels and training examples differ in number")
	}
	if n == 0 {
		return &score.RowsError{}
	}
	need := func(n int) int64 { return memory.Mul(8*3, memory.Mul(int64(n), int64(n))) }
	if err := gp.CheckMemory("an audit of labels", gp.TrainingExamples, n, l.o.Memory, need); err != nil {
		return err
	}
	l.first, l.outputs = x, c
	if l.classes == 0 {
		_, c = l.given.Dims()
	}
	o := l.o
	l.auditor = auditor{y: l.given, all: l.given, n: n, c: c}
	if err := l.prepare(&o); err != nil {
		return err
	}
	if len(l.rows) == 0 {
		return &score.RowsError{}
	}
	l.target = mat.NewDense(n, c, nil)
	if l.classes == 0 {
		l.standardize()
	} else if err := l.indicate(); err != nil {
		return err
	}
	l.rho = mat.NewDense(n, n, nil)
	l.size()
	return nil
}

// standardize writes the targets of a regression with real y.
func (l *labelAuditor) standardize() {
	for k := range l.c {
		column := mat.Col(nil, k, l.given)
		mean, sd := stat.PopMeanStdDev(column, nil)
		if !(sd > 0) {
			sd = 1
		}
		l.scale = append(l.scale, sd)
		for i, v := range column {
			l.target.Set(i, k, (v-mean)/sd)
		}
	}
}

// indicate writes the targets of a regression with classes.
func (l *labelAuditor) indicate() error {
	for i := range l.n {
		label := int(l.given.At(i, 0))
		if label < 0 || label >= l.classes {
			return fmt.Errorf("audit: the label of training example %d is %d, but the classes are 0 to %d", i, label, l.classes-1)
		}
		l.labels = append(l.labels, label)
		target := l.target.RawRowView(i)
		if l.c == 1 {
			target[0] = float64(label) - 0.5
			continue
		}
		for k := range target {
			target[k] = -1 / float64(l.c)
		}
		target[label]++
	}
	return nil
}

// try computes the leave-one-out predictions of a regression: with Q = (ρᵖ + σ²I)⁻¹ and targets t,
// the prediction of example i without itself is t_i − (Qt)_i/Q_ii [rw 5.4.2].
func (l *labelAuditor) try(ctx context.Context, r Regression) (Regression, error) {
	err := par.Do(ctx, l.n, func(i int) error {
		row := l.work.Data[i*l.n : (i+1)*l.n]
		for j := i; j < l.n; j++ {
			v := l.rho.At(i, j)
			row[j] = v
			for range r.Power - 1 {
				row[j] *= v
			}
		}
		row[i] += r.Noise
		clear(dense.Row(l.inverse, i))
		dense.Row(l.inverse, i)[i] = 1
		return nil
	})
	if err != nil {
		return r, err
	}
	u, ok, err := dense.PotrfContext(ctx, l.work)
	if err != nil {
		return r, err
	}
	if !ok {
		return r, &gp.NotPDError{What: "the kernel of the labels", N: l.n}
	}
	if err := dense.TrsmContext(ctx, blas.Left, blas.NoTrans, 1, u, l.inverse); err != nil {
		return r, err
	}
	// Qt = U⁻¹(U⁻ᵀt)
	half, alpha := dense.New(l.n, l.c), dense.New(l.n, l.c)
	if err := dense.GemmContext(ctx, blas.Trans, blas.NoTrans, 1, l.inverse, l.target.RawMatrix(), 0, half); err != nil {
		return r, err
	}
	if err := dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, l.inverse, half, 0, alpha); err != nil {
		return r, err
	}
	l.mean = mat.NewDense(l.n, l.c, nil)
	for i := range l.n {
		own := dense.Row(l.inverse, i)[i:]
		l.diag[i] = dense.Dot(own, own)
		t := l.target.RawRowView(i)
		for j, a := range dense.Row(alpha, i) {
			l.mean.Set(i, j, t[j]-a/l.diag[i])
			r.Error += a / l.diag[i] * (a / l.diag[i]) / float64(l.n)
		}
	}
	return r, nil
}

// judge scores the labels by the predictions of the chosen regression.
func (l *labelAuditor) judge(ctx context.Context) error {
	if err := dense.SyrkContext(ctx, blas.NoTrans, 1, l.inverse, 0, l.work); err != nil {
		return err
	}
	if l.classes == 0 {
		l.judgeReal()
	} else {
		l.judgeClasses()
	}
	for k := range l.audit.Examples {
		x := &l.audit.Examples[k]
		// c·h_ii/σ² with the posterior covariance h = σ²(I − σ²Q)
		x.Leverage = float64(l.c) * (1 - l.found.Regression.Noise*l.diag[x.Index])
	}
	l.rank()
	l.support()
	near := l.near
	if l.o.MostPaired < 0 {
		near = nil
	}
	err := l.pair(ctx, l.first, near)
	l.found.Audit = *l.audit
	return err
}

// judgeClasses scores the labels of classes.
func (l *labelAuditor) judgeClasses() {
	all := l.mean
	l.mean = mat.NewDense(len(l.rows), l.c, nil)
	labels := make([]int, len(l.rows))
	for k, i := range l.rows {
		l.mean.SetRow(k, all.RawRowView(i))
		labels[k] = l.labels[i]
	}
	// Compute softmax(mean/T) of the leave-one-out means, with the T that maximizes the likelihood of
	// the labels.
	prob := mat.NewDense(len(labels), max(2, l.c), nil)
	logits := make([]float64, max(2, l.c))
	fill := func(t float64) (logp float64) {
		for k, label := range labels {
			copy(logits, l.mean.RawRowView(k))
			if l.c == 1 {
				logits[0], logits[1] = 0, 2*l.mean.At(k, 0)
			}
			for j := range logits {
				logits[j] /= t
			}
			p := prob.RawRowView(k)
			glm.Categorical{}.MeanTo(p, logits)
			logp += math.Log(p[label])
		}
		return logp
	}
	// The log likelihood is concave in 1/T, so that it has a single maximum in log T and golden-section search
	// finds it.
	lo, hi := math.Log(1e-3), math.Log(1e3)
	const ratio = 0.61803398874989484820
	for range 60 {
		left, right := hi-ratio*(hi-lo), lo+ratio*(hi-lo)
		if fill(math.Exp(left)) >= fill(math.Exp(right)) {
			hi = right
		} else {
			lo = left
		}
	}
	l.found.Temperature = math.Exp((lo + hi) / 2)
	fill(l.found.Temperature)
	l.classify(prob, labels)
	for k := range l.audit.Examples {
		x := &l.audit.Examples[k]
		x.LogDensity = math.Log(prob.At(k, x.Label))
	}
}

// judgeReal scores real targets: the leave-one-out variance of example i is a/Q_ii, with one factor a for each
// column.
func (l *labelAuditor) judgeReal() {
	size := make([]float64, l.c)
	for i := range l.n {
		for k := range size {
			d := l.target.At(i, k) - l.mean.At(i, k)
			size[k] += d * d * l.diag[i] / float64(l.n)
		}
	}
	for k := range l.audit.Examples {
		x := &l.audit.Examples[k]
		i := x.Index
		for k, a := range size {
			if a == 0 {
				a = 1
			}
			z := (l.target.At(i, k) - l.mean.At(i, k)) * math.Sqrt(l.diag[i]/a)
			x.Residual = append(x.Residual, z)
			x.LogDensity += -0.5*math.Log(2*math.Pi*a/l.diag[i]) - math.Log(l.scale[k]) - z*z/2
		}
	}
}

// at returns an element of Q.
func (l *labelAuditor) at(i, j int) float64 { return l.work.Data[min(i, j)*l.n+max(i, j)] }

// support finds the examples that speak against the labels of the first suspects. Their terms add
// up to the prediction of example i without itself, −Σ_{j≠i} Q_ij t_j / Q_ii.
func (l *labelAuditor) support() {
	found := 0
	for _, k := range l.audit.Mislabelled {
		x := &l.audit.Examples[k]
		w := l.direction(x, k)
		if found == l.o.Top || l.o.Supports < 0 {
			return
		} else if w == nil {
			continue
		}
		found++
		s := &suspect{terms: make([]float64, l.n)}
		for r, scale := range l.scale {
			w[r] *= scale
		}
		for j := range s.terms {
			s.terms[j] = -l.at(x.Index, j) / l.diag[x.Index] * dense.Dot(w, l.target.RawRowView(j))
		}
		x.Supports = s.largest(x.Index, l.o.Supports)
	}
}

// near finds near-duplicates by the posterior covariance σ²(I − σ²Q). first[i] is the first example
// with the same input as example i; examples with an earlier equal are skipped.
func (l *labelAuditor) near(ctx context.Context, first []int) ([]Pair, error) {
	noise := l.found.Regression.Noise
	var pairs []Pair
	for lo := 0; lo < l.n; lo += tileRows {
		rows := make([][]Pair, min(tileRows, l.n-lo))
		err := par.Do(ctx, len(rows), func(t int) error {
			i := lo + t
			for j := i + 1; j < l.n; j++ {
				if first[i] != i || first[j] != j {
					continue
				}
				v := math.Min(1, -noise*l.at(i, j)/math.Sqrt((1-noise*l.diag[i])*(1-noise*l.diag[j])))
				if v >= l.o.LeastCorrelation {
					rows[t] = append(rows[t], l.newPair(i, j, v))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, slices.Concat(rows...)...)
		slices.SortFunc(pairs, comparePairs)
		pairs = pairs[:min(len(pairs), l.o.Top)]
		l.o.Show(StagePairs, lo+len(rows), l.n)
	}
	return pairs, nil
}
