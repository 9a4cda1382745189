package result

import (
	"math"

	"github.com/funcgp/funcgp/glm/score"
)

// A labelCount collects, over the scored rows, the probability of each label and whether the row has the label.
type labelCount struct {
	prob []float64
	has  []bool
}

// scores sets the scores that are computed from all labels together.
func (c *labelCount) scores(s *Scores) {
	var confidence, has, not []float64
	hit := make([]bool, len(c.prob))
	for i, p := range c.prob {
		if confidence = append(confidence, math.Max(p, 1-p)); c.has[i] {
			has = append(has, p)
		} else {
			not = append(not, p)
		}
		hit[i] = p > .5 == c.has[i]
	}
	s.ECE, s.AUROC = Float(score.ECEOf(confidence, hit)), Float(score.AUROC(not, has))
}

// labels sets what follows from the probabilities and the targets of several labels; nil targets are unknown.
// If a probability is NaN, all results stay undefined.
func (o *Outcome) labels(prob, targets []Float) {
	right, brier := 0.0, 0.0
	for k, p := range prob {
		if math.IsNaN(float64(p)) {
			o.LogDensity = math.NaN()
			return
		}
		if targets == nil {
			continue
		}
		if p > .5 == (targets[k] > .5) {
			right++
		}
		// of two classes, the label and none
		brier += 2 * float64((p-targets[k])*(p-targets[k]))
	}
	if n := float64(len(prob)); targets != nil {
		o.Right, o.Brier = right/n, brier/n
	}
}

// addLabels adds the labels of a scored row to the counts.
func (p *Predictions) addLabels(to int, o *Outcome, r *Prediction, prob []Float) {
	if p.Labels == nil || math.IsNaN(o.LogDensity) {
		return
	}
	if p.classwise[to] == nil {
		p.classwise[to] = score.NewClasswise(len(p.Labels))
	}
	c := &p.labels[to]
	for k, v := range prob {
		has := r.Targets[k] > .5
		p.classwise[to].Add(k, float64(v), has)
		c.prob, c.has = append(c.prob, float64(v)), append(c.has, has)
	}
}
