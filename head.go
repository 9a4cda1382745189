package funcgp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// appliesHead tells whether a likelihood applies the function of a head to outputs by itself. The softmax of a
// LogSoftmax is the softmax of its input.
func appliesHead(lik glm.Likelihood, h head.Head) bool {
	switch _, counts := lik.(glm.Counting); {
	case counts:
		return h.Function == head.Exp
	case isSoftmax(lik):
		return h.Groups == 1 && (h.Function == head.Softmax || h.Function == head.LogSoftmax)
	case hasClasses(lik):
		return h.Function == head.Sigmoid
	}
	return false
}

// headLikelihood is the name of the likelihood that applies the head of a network by itself, "" for none.
func headLikelihood(n *network.Network) string {
	for _, name := range option.Values("likelihood") {
		if appliesHead(likelihoodNamed(name), n.Head()) {
			return name
		}
	}
	return ""
}

// withHead returns the model whose network ends where the likelihood begins, and tells what was done: its head is
// removed where the likelihood applies that very function, and is part of f under any other.
func (m *trainedModel) withHead(c *job.Job, lik glm.Likelihood) (*trainedModel, error) {
	if m.Net == nil || m.Net.Head().Function == head.None {
		return m, nil
	}
	h := m.Net.Head()
	rule := head.Keep
	if appliesHead(lik, h) {
		rule = head.Remove
	}
	net, err := m.Net.WithHead(rule)
	if err != nil {
		return nil, modelError(m.Name, err)
	}
	out := m.Trained(net)
	switch {
	case rule == head.Remove, hasNoise(lik):
		c.Warn(net.Head().Warning())
	default:
		// Say that a likelihood takes for logits or log rates what a head made of them, and what to do about it.
		takes, remedy := "", option.Text("")
		switch _, counts := lik.(glm.Counting); {
		case counts && h.Function == head.LogSoftmax:
			takes, remedy = "takes them for logarithms of rates, and they are those of probabilities", "Give {likelihood=categorical} for labels, or gaussian."
		case hasLogVariances(lik):
			takes, remedy = "takes them for means and logarithms of variances", "Export the model without it, with the logarithm of the variance as its output."
		case counts:
			takes, remedy = "takes them for logarithms of rates", "Where they are rates, export the model with a Log after it, else give another {likelihood}."
		case h.Groups > 1:
			takes = fmt.Sprintf("takes all outputs for the logits of one choice, and they are those of %d", h.Groups)
			remedy = "Export the model with the outputs of one of them, or give {likelihood=gaussian}."
		case isSoftmax(lik) && h.Function == head.Sigmoid:
			takes = "applies a softmax to them, and they are probabilities of several labels, each by itself"
			remedy = "Give {likelihood=bernoulli} and the columns of the labels with {target}, or {likelihood=gaussian}."
		case h.Function == head.Sigmoid || h.Function == head.Softmax:
			takes, remedy = "takes them for logits, and they are probabilities", "Export the model without it, or give {likelihood=gaussian}."
		default:
			takes, remedy = "takes them for logits", "Where it is no part of the network that was trained, export the model without it, else give {likelihood=gaussian} or poisson."
		}
		out.wrongHead = job.NewWarning("wrong-outputs", math.NaN(), math.NaN(), remedy, "The final %v stays part of the outputs, and the %s likelihood %s. All answers are wrong.", h, lik.Name(), takes)
		if err := c.Alarm(out.wrongHead); err != nil {
			return nil, job.Full(err)
		}
	}
	return out, nil
}

const (
	// sumsToOne is by how much the probabilities of a row, in single precision or after a Clip, may sum to another
	// number than 1.
	sumsToOne = 1e-3
	// fewProbabilities is the least number of outputs that count as probabilities by their range alone: logits of
	// trained networks are seldom all between 0 and 1.
	fewProbabilities = 20
	// likelier is by how many nats a row the targets must be likelier where outputs are taken for something else.
	likelier = .1
)

// outputs checks the range of the outputs. If they look like probabilities or logarithms of probabilities, to
// which the likelihood would apply its function a second time, it warns. It reports whether it found something,
// which then explains other faults too.
func (l *look) outputs() bool {
	if w := l.problem.Model.wrongHead; w != nil {
		l.warn(w)
		return true
	}
	t, f := l.problem.Task, l.at.F
	n, c := f.Dims()
	logitOfLog := func(v float64) float64 { return v - math.Log(-math.Expm1(v)) } // of a probability whose logarithm is given
	least, most := mat.Min(f), mat.Max(f)
	sums := true // every row to 1
	for i := range n {
		sums = sums && !(math.Abs(floats.Sum(f.RawRowView(i))-1) > sumsToOne)
	}
	between := least >= 0 && most <= 1 && most > least
	says, takes, remedy := "probabilities", "logits", option.Text("Export the model without what makes them probabilities.")
	switch _, counts := t.Likelihood.(glm.Counting); {
	case counts && least > 0 && l.better(math.Log) > likelier:
		says, takes, remedy = "rates", "logarithms of rates", "Export the model with a Log at its end."
	case !hasClasses(t.Likelihood):
		return false
	case c == 1 && most < 0 && l.better(logitOfLog) > likelier:
		says = "logarithms of probabilities"
	case !between:
		return false
	case c > 1 && sums:
		says, remedy = "probabilities, 1 in sum", "Export the model without what makes them probabilities, or with a Log at its end."
	case n*c < fewProbabilities:
		return false
	case isSoftmax(t.Likelihood):
		remedy = "If they are probabilities p of a label each, export the model with log(p/(1−p)) at its end, and give {likelihood=bernoulli} and their columns with {target}."
	default:
		remedy = "If they are probabilities p, export the model with log(p/(1−p)) at its end."
	}
	l.warn(job.NewWarning("wrong-outputs", math.NaN(), math.NaN(), remedy, "The outputs of %d training rows look like %s, all between %.3g and %.3g, and the %s likelihood takes them for %s. If they are, all answers are wrong.",
		n, says, least, most, t.Likelihood.Name(), takes))
	return true
}

// better returns by how many nats a row the targets become likelier when the function of is applied to the
// outputs.
func (l *look) better(of func(v float64) float64) float64 {
	y, f, lik := l.problem.Examples.Y, l.at.F, l.problem.Task.Likelihood
	n, c := f.Dims()
	other, sum := make([]float64, c), 0.0
	for i := range n {
		for j, v := range f.RawRowView(i) {
			other[j] = of(v)
		}
		sum += lik.LogProb(y.RawRowView(i), other) - lik.LogProb(y.RawRowView(i), f.RawRowView(i))
	}
	return sum / float64(n)
}
