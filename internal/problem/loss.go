package problem

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/linearize"
)

// At an optimum of the cross entropy with weight decay λ the gradient over all rows is that of the decay, Jᵀ(y − p) = Nλθ, for
// whatever network. Under another loss it is not, and the gradient of that loss is: Jᵀr' with its own residuals r'. So the
// training loss is told by two questions for each departure from the cross entropy:
//
//   - Do the rows differ from what the network expects? Of a class, z = Σ(p − y)/√Σp(1 − p), which class weights and
//     resampling move. Of sureness, z = Σ(y − p)ᵀf/√Σ Var_p f, which focal loss and label smoothing raise. Decay, early
//     stopping, dropout and normalization raise the second too.
//   - Is another loss nearer to its optimum? q = ‖Jᵀr' − Nλ'θ‖/√Σ‖r'‖² over the same of the cross entropy, each with its
//     own best λ ≥ 0, so that no decay counts against either.
//
// The limits were chosen on 218 trainings by the cross entropy and 180 by other losses (studies/loss has the trainings and the
// rates), and the second of each pair for what is clearer.
const (
	sharesZ, sharesQ           = 2.2, .45 // a class is off by so many standard errors, and weights explain it
	sharesClearZ, sharesClearQ = 4, .6
	sharesLeast                = .07 // the difference, relative to the share of the class or of the others

	flatZ, flatQ           = 3, .2 // labels are surer than the network, and another loss explains it
	flatClearZ, flatClearQ = 3.5, .45
	flatDecay              = .08 // a decay that would explain it, where it is stronger than any in use
	// Logits are to grow by a tenth at least, so that many rows do not make something of nothing.
	flatLeast = .1
	// Where labels are surer by so much even under the weights, the training ended too early to tell weights.
	unfinishedZ = 6
)

// A flatLoss is a loss whose optimum is less sure than the labels are.
type flatLoss struct {
	name string
	// The residual is −∂loss/∂f = scale·(y − p) + shift·(1/K − p) for the label's probability.
	residual func(py, logpy float64) (scale, shift float64)
}

// flatLosses are those looked for: −(1 − p)^γ log p, and the cross entropy to (1 − ε)y + ε/K.
var flatLosses = func() []flatLoss {
	var all []flatLoss
	for _, gamma := range []float64{1, 2, 3, 5} {
		all = append(all, flatLoss{fmt.Sprintf("focal loss (γ near %g)", gamma), func(p, logp float64) (float64, float64) {
			return math.Pow(1-p, gamma) - gamma*math.Pow(1-p, gamma-1)*p*logp, 0
		}})
	}
	for _, eps := range []float64{.05, .1, .2} {
		all = append(all, flatLoss{fmt.Sprintf("label smoothing (ε near %g)", eps), func(float64, float64) (float64, float64) { return 1 - eps, eps }})
	}
	return all
}()

// A classCount compares what the network expects of a class with the rows.
type classCount struct {
	class           int
	expected, share float64 // of the rows
	z               float64 // standard errors between them
	weight          float64 // of the class in a training loss under which they would agree
}

// trainingLoss warns where the network is at an optimum of another loss than the cross entropy of its training rows.
func (l *look) trainingLoss(ctx context.Context, rows string) error {
	if l.problem.Task.Classes == nil || l.at.Pull == nil || !l.known {
		return nil
	}
	counts := l.classCounts()
	worst := 0.0
	for _, c := range counts {
		worst = max(worst, math.Abs(c.z))
	}
	z, slope := l.sureness(nil)
	if worst < sharesZ && (z < flatZ || slope < flatLeast) {
		return nil
	}
	residual := mat.DenseCopyOf(l.at.F)
	n, c := residual.Dims()
	gradient := func(of func(label int, p []float64) (scale, shift float64)) (rest, decay float64, err error) {
		square := 0.0
		for i, y := range l.problem.Examples.Train.Class {
			p := make([]float64, len(l.logp[i]))
			for j, v := range l.logp[i] {
				p[j] = math.Exp(v)
			}
			scale, shift := of(y, p)
			r := residual.RawRowView(i)
			for j := range r {
				k := j + len(p) - c // one output is that of the second class
				label := 0.0
				if k == y {
					label = 1
				}
				r[j] = scale*(label-p[k]) + shift*(1/float64(len(p))-p[k])
				square += r[j] * r[j]
			}
		}
		g, err := l.at.Pull(ctx, residual)
		if err != nil || square == 0 {
			return 0, 0, err
		}
		if theta := l.at.Theta; floats.Dot(theta, theta) > 0 {
			decay = max(0, floats.Dot(g, theta)/floats.Dot(theta, theta))
			floats.AddScaled(g, -decay, theta)
		}
		return floats.Norm(g, 2) / math.Sqrt(square), decay / float64(n), nil
	}
	plain, decay, err := gradient(func(int, []float64) (float64, float64) { return 1, 0 })
	if err != nil || plain == 0 {
		return err
	}
	if worst >= sharesZ {
		rest, _, err := gradient(func(y int, _ []float64) (float64, float64) { return counts[y].weight, 0 })
		if err != nil {
			return err
		}
		under, _ := l.sureness(counts)
		if off := counts.offBy(rest/plain, under < unfinishedZ); len(off) > 0 {
			l.warn(counts.warning(off, rows, l.problem.Task))
			return nil // sureness is that under the weights
		}
	}
	if z < flatZ || slope < flatLeast {
		return nil
	}
	least, name := math.Inf(1), ""
	for _, f := range flatLosses {
		rest, _, err := gradient(func(y int, p []float64) (float64, float64) {
			return f.residual(p[y], math.Log(max(p[y], math.SmallestNonzeroFloat64)))
		})
		if err != nil {
			return err
		}
		if rest < least {
			least, name = rest, f.name
		}
	}
	if least < flatQ*plain || z >= flatClearZ && (least < flatClearQ*plain || decay > flatDecay) {
		if least >= plain {
			name = "focal loss, label smoothing or a strong decay"
		}
		l.warn(l.flatWarning(z, rows, name))
	}
	return nil
}

// A classCounts has an element for each class.
type classCounts []classCount

// classCounts compares expected numbers of rows with the true ones.
func (l *look) classCounts() classCounts {
	k, n := len(l.problem.Task.Classes), float64(len(l.logp))
	all := make(classCounts, k)
	variance, square := make([]float64, k), make([]float64, k)
	to := mat.NewDense(k, k, nil) // mean probabilities of the rows of each label
	for i, lp := range l.logp {
		y := l.problem.Examples.Train.Class[i]
		all[y].share += 1 / n
		for j, v := range lp {
			p := math.Exp(v)
			off := p
			if j == y {
				off--
			}
			all[j].expected += p / n
			variance[j] += p * (1 - p)
			square[j] += off * off
			to.Set(y, j, to.At(y, j)+p/n)
		}
	}
	weight := balancedWeights(to)
	for j := range all {
		c := &all[j]
		c.class, c.weight = j, weight[j]
		// A network that is sure and wrong has less variance than it makes errors.
		if sd := math.Sqrt(max(variance[j], square[j])); sd > 0 {
			c.z = n * (c.expected - c.share) / sd
		}
	}
	return all
}

// balancedWeights returns the weights of labels, with mean 1 over the rows, under which Σ w_y (p − y) is 0 for every class.
// Row y of to has the sums of the probabilities of the rows with label y. Weights times numbers of rows are the stationary
// distribution of its rows over their sums: shares at which what is expected is what there is.
func balancedWeights(to *mat.Dense) []float64 {
	k, _ := to.Dims()
	share, weight := make([]float64, k), make([]float64, k)
	a, b := mat.NewDense(k, k, nil), mat.NewVecDense(k, nil)
	for y := range k {
		share[y] = mat.Sum(to.RowView(y))
		if share[y] <= 0 {
			continue // its weight is free
		}
		for c := range k {
			a.Set(c, y, to.At(y, c)/share[y])
		}
	}
	for c := range k {
		a.Set(c, c, a.At(c, c)-1)
		a.Set(0, c, 1) // in place of the equation that the others imply
		weight[c] = 1
	}
	b.SetVec(0, floats.Sum(share))
	var u mat.VecDense
	if u.SolveVec(a, b) != nil {
		return weight // nearly singular: a network that is right everywhere says nothing
	}
	for y := range k {
		if share[y] > 0 {
			weight[y] = max(1e-6, u.AtVec(y)/share[y])
		}
	}
	return weight
}

// offBy returns the classes whose numbers of rows differ from what is expected, the worst first, as by a loss with weights
// under which the gradient is q times that of the cross entropy, of a network whose training came to an end or not.
func (all classCounts) offBy(q float64, ended bool) (off classCounts) {
	clear := false
	for _, c := range all {
		if math.Abs(c.expected-c.share) < sharesLeast*min(c.share, 1-c.share) {
			continue
		}
		if z := math.Abs(c.z); z >= sharesZ {
			off = append(off, c)
			clear = clear || ended && z >= sharesClearZ
		}
	}
	if !(q < sharesQ || clear && q < sharesClearQ) {
		return nil
	}
	slices.SortStableFunc(off, func(a, b classCount) int { return cmp.Compare(math.Abs(b.z), math.Abs(a.z)) })
	return off
}

// mostNamed is how many classes a warning names.
const mostNamed = 3

// warning says which classes are off, and by what weights.
func (all classCounts) warning(off classCounts, rows string, t *Task) error {
	name := func(k int) string {
		if t.Names != nil {
			return fmt.Sprintf("%q", t.Names[k])
		}
		return fmt.Sprint(t.Classes[k])
	}
	if len(all) == 2 { // the other class is off by as much
		off = classCounts{slices.MinFunc(off, func(a, b classCount) int { return cmp.Compare(a.share, b.share) })}
	}
	var parts []string
	for i, c := range off {
		if i == mostNamed {
			parts = append(parts, fmt.Sprintf("%s more", result.Count(len(off)-mostNamed)))
			break
		}
		parts = append(parts, fmt.Sprintf("%.3g %% of class %s where they have %.3g %% (z = %.1f)", 100*c.expected, name(c.class), 100*c.share, c.z))
	}
	heavy := slices.MaxFunc(all, func(a, b classCount) int { return cmp.Compare(a.weight, b.weight) })
	light := slices.MinFunc(all, func(a, b classCount) int { return cmp.Compare(a.weight, b.weight) })
	return linearize.NewWarning("loss-weighted", off[0].z, sharesZ, "Train without class weights and on rows as they occur, or give the rows as they were drawn.",
		"On %s the network expects %s, as after a training with class weights, pos_weight or resampled rows (class %s at %.2g times the weight of class %s). Every probability, interval and score is for classes with other shares, and the network is no optimum of this likelihood, so terms and the evidence are off too.",
		rows, strings.Join(parts, ", "), name(heavy.class), heavy.weight/light.weight, name(light.class))
}

// sureness returns how many standard errors the labels, with the weights of their classes or nil, lie above what the network
// expects along its own logits, and by what part the logits would grow in one step of Newton's method.
func (l *look) sureness(weights classCounts) (z, slope float64) {
	gain, variance := 0.0, 0.0
	for i, lp := range l.logp {
		mean, square := 0.0, 0.0
		for _, v := range lp {
			if p := math.Exp(v); p > 0 {
				mean += p * v
				square += p * v * v
			}
		}
		y, w := l.problem.Examples.Train.Class[i], 1.0
		if weights != nil {
			w = weights[y].weight
		}
		gain += w * (lp[y] - mean)
		variance += w * w * (square - mean*mean)
	}
	if !(variance > 0) {
		return 0, 0
	}
	return gain / math.Sqrt(variance), gain / variance
}

// flatWarning says that the labels are surer than the network.
func (l *look) flatWarning(z float64, rows, loss string) error {
	sure := 0.0
	for _, lp := range l.logp {
		sure += math.Exp(floats.Max(lp)) / float64(len(l.logp))
	}
	return linearize.NewWarning("loss-flattened", z, flatZ, "Train by the cross entropy, to its end.",
		"On %s the network is less sure than right, as after %s or a training that stopped far from its end: its largest probability is %.3g on average and its accuracy %.3g (z = %.1f). Its probabilities are too near to one another, and it is no optimum of this likelihood, so terms, match and evidence are off too.",
		rows, loss, sure, l.accuracy, z)
}
