package train

import (
	"fmt"
	"math"
)

// An Optimizer updates the parameters after each minibatch of MAP: Adam or SGD.
type Optimizer interface {
	check() error
	stage() string
	// start returns a function that updates theta by a step of size rate, given the gradient of the objective.
	// params is P and n is the number of training examples.
	start(params, n int) func(theta, grad []float64, rate float64)
}

// Adam is the optimizer of Kingma and Ba (2015), on the gradient of the whole objective. Up to Epsilon, its step
// does not depend on the scale of the gradient.
type Adam struct {
	Beta1, Beta2 float64 // decays of the two moments; 0 means 0.9 and 0.999
	Epsilon      float64 // 0 means 1e-8
	// Decay λ subtracts λ·rate·θ before each step of size rate (AdamW, Loshchilov and Hutter 2019). It is no prior,
	// because the step does not scale with the gradient.
	Decay float64
}

var _ Optimizer = Adam{}

func (a Adam) withDefaults() Adam {
	or := func(v *float64, def float64) {
		if *v == 0 {
			*v = def
		}
	}
	or(&a.Beta1, 0.9)
	or(&a.Beta2, 0.999)
	or(&a.Epsilon, 1e-8)
	return a
}

func (a Adam) check() error {
	a = a.withDefaults()
	if !(a.Beta1 > 0 && a.Beta1 < 1 && a.Beta2 > 0 && a.Beta2 < 1 && a.Epsilon > 0) {
		return fmt.Errorf("train: Adam with decays %v and %v and epsilon %v; want decays between 0 and 1 and a positive epsilon", a.Beta1, a.Beta2, a.Epsilon)
	}
	if !(a.Decay >= 0) || math.IsInf(a.Decay, 1) {
		return fmt.Errorf("train: Adam with the weight decay %v; it must be 0 or a positive number", a.Decay)
	}
	return nil
}

func (Adam) stage() string { return StageAdam }

func (a Adam) start(params, _ int) func(theta, grad []float64, rate float64) {
	a = a.withDefaults()
	m, v, step := make([]float64, params), make([]float64, params), 0
	return func(theta, grad []float64, rate float64) {
		step++
		c1, c2 := 1-math.Pow(a.Beta1, float64(step)), 1-math.Pow(a.Beta2, float64(step))
		for i, g := range grad {
			m[i] = a.Beta1*m[i] + (1-a.Beta1)*g
			v[i] = a.Beta2*v[i] + (1-a.Beta2)*g*g
			theta[i] -= rate * a.Decay * theta[i]
			theta[i] -= rate * (m[i] / c1) / (math.Sqrt(v[i]/c2) + a.Epsilon)
		}
	}
}

// SGD is stochastic gradient descent, by default without momentum, on the objective divided by the number N of
// training examples. This is the mean loss, to which other tools apply their step sizes. A prior precision δ is a
// weight decay of δ/N there.
type SGD struct {
	Momentum float64 // share of the last step's direction that is added to the gradient, below 1
	Nesterov bool    // take the gradient after the momentum's step
}

var _ Optimizer = SGD{}

func (o SGD) check() error {
	if !(o.Momentum >= 0 && o.Momentum < 1) {
		return fmt.Errorf("train: a momentum of %v; it must be at least 0 and below 1", o.Momentum)
	}
	return nil
}

func (SGD) stage() string { return StageSGD }

func (o SGD) start(params, n int) func(theta, grad []float64, rate float64) {
	direction, scale := make([]float64, params), 1/float64(n)
	return func(theta, grad []float64, rate float64) {
		for i, g := range grad {
			g *= scale
			d := o.Momentum*direction[i] + g
			direction[i] = d
			if o.Nesterov {
				d = g + o.Momentum*d
			}
			theta[i] -= rate * d
		}
	}
}
