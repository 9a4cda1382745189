package funcgp

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
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/job"
)

// At an optimum of the cross entropy with weight decay λ the gradient over all rows is that of the decay, Jᵀ(y − p) = Nλθ, for
// whatever network. Under another loss it is not, and the gradient of that loss is: Jᵀr' with its own residuals r'. So a
// training loss is told by a departure of the labels from what the network expects, and by a loss that explains it:
//
//   - Along a function d of the class the labels differ by u = Σ(d_y − E_p d), of variance v = Σ Var_p d. A logit of d would be
//     moved by u/v in one step of Newton's method, which is u/√v standard errors. The indicators of classes are moved by class
//     weights and resampling. log p itself is by focal loss and label smoothing, and by decay, early stopping, dropout and
//     normalization.
//   - q = ‖Jᵀr' − Nλ'θ‖/√Σ‖r'‖² over the same of the cross entropy, each with its own best λ ≥ 0, so that no decay counts
//     against either, says how much nearer to an optimum of another loss the network is.
//
// Rows count by the weights that their loss is stated to have, 1 in the mean.
// A departure counts by |z·u/v|/√q. Rows that the network nearly fits have a small z and a large u/v. studies/loss has the
// trainings that the limits were chosen on, and the rates on others.
const (
	sharesLimit, flatLimit = 1.6, 4
	leastMove              = .1 // of a logit, so that many rows do not make something of nothing
)

// A departure sums u and v over the rows.
type departure struct{ sum, variance, square float64 }

// add adds a row of weight w with d_y − E_p d and Var_p d.
func (d *departure) add(w, off, variance float64) {
	d.sum += w * off
	d.variance += w * variance
	d.square += w * off * w * off
}

// spread is v. A network that is sure and wrong has less variance than it makes errors.
func (d *departure) spread() float64 { return max(d.variance, d.square, math.SmallestNonzeroFloat64) }

// z is the departure in standard errors.
func (d *departure) z() float64 { return d.sum / math.Sqrt(d.spread()) }

// counts returns |z·u/v|/√q, or 0 if the logit moves by less than leastMove, |u/v|.
func (d *departure) counts(q float64) float64 {
	if move := math.Abs(d.sum) / d.spread(); move >= leastMove {
		return math.Abs(d.z()) * move / math.Sqrt(q)
	}
	return 0
}

// A flatLoss is a loss whose optimum is less sure than the labels are.
type flatLoss struct {
	name string
	// The residual is −∂loss/∂f = scale·(y − p) + shift·(1/K − p) for the label's probability.
	residual func(py, logpy float64) (scale, shift float64)
}

// flatLosses lists the losses that are looked for: −(1 − p)^γ log p, and the cross entropy to (1 − ε)y + ε/K.
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
	departure
	class           int
	expected, share float64 // of the rows
	weight          float64 // of the class in a training loss under which they would agree
}

// trainingLoss warns where the network is at an optimum of another loss than the cross entropy of its training rows.
func (l *look) trainingLoss(ctx context.Context, rows string) error {
	if !hasClasses(l.problem.Task.Likelihood) || l.at.Pull == nil || !l.known {
		return nil
	}
	if !l.problem.Task.Loss.plain() {
		rows += ", by the loss that is stated,"
	}
	if l.problem.Task.MultiLabel() {
		return l.labelLoss(ctx, rows)
	}
	counts, flat := l.classCounts(), l.sureness()
	residual := mat.DenseCopyOf(l.at.F)
	_, c := residual.Dims()
	gradient := func(of func(label int, p []float64) (scale, shift float64)) (float64, error) {
		for i, y := range l.problem.Examples.Train.Class {
			p := make([]float64, len(l.logp[i]))
			for j, v := range l.logp[i] {
				p[j] = math.Exp(v)
			}
			scale, shift := of(y, p)
			r := residual.RawRowView(i)
			for j := range r {
				k := j + len(p) - c // one output is that of the second class
				r[j] = l.weight[i] * (scale*(l.shares[i][k]-p[k]) + shift*(1/float64(len(p))-p[k]))
			}
		}
		return l.gradient(ctx, residual)
	}
	worst := slices.MaxFunc(counts, func(a, b classCount) int { return cmp.Compare(math.Abs(a.z()), math.Abs(b.z())) })
	if worst.counts(1) == 0 && flat.counts(1) == 0 {
		return nil
	}
	plain, err := gradient(func(int, []float64) (float64, float64) { return 1, 0 })
	if err != nil || plain == 0 {
		return err
	}
	weighted, err := gradient(func(y int, _ []float64) (float64, float64) { return counts[y].weight, 0 })
	if err != nil {
		return err
	}
	flattened, name := math.Inf(1), ""
	for _, f := range flatLosses {
		rest, err := gradient(func(y int, p []float64) (float64, float64) {
			return f.residual(p[y], math.Log(max(p[y], math.SmallestNonzeroFloat64)))
		})
		if err != nil {
			return err
		}
		if rest < flattened {
			flattened, name = rest, f.name
		}
	}
	// Where both count, the loss that explains more is the cause: a flat loss moves shares as well.
	shares, sure := worst.counts(weighted/plain), flat.counts(flattened/plain)
	switch {
	case shares >= sharesLimit && !(sure >= flatLimit && flattened < weighted):
		l.warn(counts.warning(counts.offBy(weighted/plain), shares, rows, l.problem.Task))
	case sure >= flatLimit:
		if flattened >= plain {
			name = "focal loss, label smoothing or a strong decay"
		}
		l.warn(l.flatWarning(sure, flat.z(), rows, name))
	}
	return nil
}

// gradient returns ‖Jᵀr − cθ‖/‖r‖ with the best c ≥ 0, for residuals r, N×C. It is 0 for none.
func (l *look) gradient(ctx context.Context, r *mat.Dense) (float64, error) {
	size := mat.Norm(r, 2)
	g, err := l.at.Pull(ctx, r)
	if err != nil || size == 0 {
		return 0, err
	}
	if theta := l.at.Theta; floats.Dot(theta, theta) > 0 {
		floats.AddScaled(g, -max(0, floats.Dot(g, theta)/floats.Dot(theta, theta)), theta)
	}
	return floats.Norm(g, 2) / size, nil
}

// labelLoss is trainingLoss of several labels a row: it warns where rows with some label had another weight than the others.
func (l *look) labelLoss(ctx context.Context, rows string) error {
	p := l.problem
	own, names := p.TrainTargets(), p.Task.LabelNames
	n, c := l.at.F.Dims()
	counts, plain := make(classCounts, c), mat.NewDense(n, c, nil)
	above, below := make([]float64, c), make([]float64, c) // sums of the residuals of rows with the label, and −1 times those without
	lambda := make([]float64, c*c)
	for i := range n {
		f, r := l.at.F.RawRowView(i), plain.RawRowView(i)
		own.Expand(i, r, lambda, nil, f)
		for j, v := range f {
			y := p.Examples.Y.At(i, j)
			counts[j].share += y / float64(n)
			counts[j].expected += integral.Sigmoid(v) / float64(n)
			counts[j].add(1, r[j], lambda[j*c+j])
			above[j] += max(0, r[j])
			below[j] -= min(0, r[j])
		}
	}
	weighted := mat.DenseCopyOf(plain)
	for j := range counts {
		counts[j].class, counts[j].weight = j, 1
		if above[j] > 0 {
			counts[j].weight = max(1e-6, below[j]/above[j])
		}
	}
	weighted.Apply(func(_, j int, r float64) float64 {
		if r > 0 {
			r *= counts[j].weight
		}
		return r
	}, weighted)
	a, err := l.gradient(ctx, plain)
	if err != nil || a == 0 {
		return err
	}
	b, err := l.gradient(ctx, weighted)
	off := counts.offBy(b / a)
	if err != nil || off == nil {
		return err
	}
	var parts []string
	for _, k := range off[:min(mostNamed, len(off))] {
		parts = append(parts, fmt.Sprintf("%q for %.3g %% of them where %.3g %% have it (z = %.1f, as at %.2g times their weight)", names[k.class], 100*k.expected, 100*k.share, -k.z(), k.weight))
	}
	l.warn(job.NewWarning("loss-weighted", off[0].counts(b/a), sharesLimit, "Give {class-weights} if the training had pos_weight, or the rows as they were drawn.",
		"On %s the network expects the label %s, as after a training with pos_weight or resampled rows. Its own probabilities are for labels with other shares, which calibration corrects by a shift, and it is no optimum of this likelihood, so terms and the evidence are off too.",
		rows, strings.Join(parts, ", ")))
	return nil
}

// A classCounts has an element for each class.
type classCounts []classCount

// classCounts compares expected numbers of rows with the true ones.
func (l *look) classCounts() classCounts {
	k, n := len(l.problem.Task.Classes), float64(len(l.logp))
	all := make(classCounts, k)
	to := mat.NewDense(k, k, nil) // mean probabilities of the rows of each label
	for i, lp := range l.logp {
		y := l.problem.Examples.Train.Class[i]
		w := l.weight[i]
		for j, v := range lp {
			p := math.Exp(v)
			q := l.shares[i][j]
			all[j].share += w * q / n
			all[j].expected += w * p / n
			all[j].add(w, q-p, p*(1-p))
			to.Set(y, j, to.At(y, j)+w*p/n)
		}
	}
	for j, w := range balancedWeights(to) {
		all[j].class, all[j].weight = j, w
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

// offBy returns the classes whose numbers of rows differ from the expected numbers, the worst first, as a loss
// with class weights would cause. q is the ratio of the gradient under such a loss to the gradient of the cross
// entropy.
func (all classCounts) offBy(q float64) (off classCounts) {
	for _, c := range all {
		if c.counts(q) >= sharesLimit {
			off = append(off, c)
		}
	}
	slices.SortStableFunc(off, func(a, b classCount) int { return cmp.Compare(math.Abs(b.z()), math.Abs(a.z())) })
	return off
}

// mostNamed is how many classes a warning names.
const mostNamed = 3

// warning returns the warning that names the classes that are off, and the weights that would explain it.
func (all classCounts) warning(off classCounts, by float64, rows string, t *problemTask) error {
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
		parts = append(parts, fmt.Sprintf("%.3g %% of class %s where they have %.3g %% (z = %.1f)", 100*c.expected, name(c.class), 100*c.share, -c.z()))
	}
	heavy := slices.MaxFunc(all, func(a, b classCount) int { return cmp.Compare(a.weight, b.weight) })
	light := slices.MinFunc(all, func(a, b classCount) int { return cmp.Compare(a.weight, b.weight) })
	return job.NewWarning("loss-weighted", by, sharesLimit, "Give {class-weights} if the training had them, or the rows as they were drawn.",
		"On %s the network expects %s, as after a training with class weights, pos_weight or resampled rows (class %s at %.2g times the weight of class %s). Its own probabilities are for classes with other shares, which calibration corrects by a shift, and it is no optimum of this likelihood, so terms and the evidence are off too.",
		rows, strings.Join(parts, ", "), name(heavy.class), heavy.weight/light.weight, name(light.class))
}

// sureness is the departure of the labels along log p: how much surer they are than the network.
func (l *look) sureness() (d departure) {
	for i, lp := range l.logp {
		mean, square := 0.0, 0.0
		for _, v := range lp {
			if p := math.Exp(v); p > 0 {
				mean += p * v
				square += p * v * v
			}
		}
		d.add(l.weight[i], dotFinite(l.shares[i], lp)-mean, square-mean*mean)
	}
	d.sum = max(0, d.sum) // networks that are surer than right are another matter
	return d
}

// flatWarning returns the warning that the labels are surer than the network.
func (l *look) flatWarning(by, z float64, rows, loss string) error {
	sure := 0.0
	for _, lp := range l.logp {
		sure += math.Exp(floats.Max(lp)) / float64(len(l.logp))
	}
	return job.NewWarning("loss-flattened", by, flatLimit, "Give {label-smoothing} if the training had it, or train by the cross entropy, to its end.",
		"On %s the network is less sure than right, as after %s or a training that stopped far from its end: its largest probability is %.3g on average and its accuracy %.3g (z = %.1f). Its probabilities are too near to one another, and it is no optimum of this likelihood, so terms, match and evidence are off too.",
		rows, loss, sure, l.accuracy, z)
}
