package funcgp

import (
	"context"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
)

// A Trainee is a network that is still to be trained.
type Trainee struct {
	Name string // what messages call it, such as "the mlp:50-1 network"
	// Outputs is the number of outputs C of an architecture that fixes its own width. 0 means the number that
	// suits likelihood and data: one for each class, but one in all for two classes; one for a regression, or
	// two for the heteroscedastic likelihood; one for each label where a row has any number of labels.
	Outputs int
	// Autoencoder says that the targets are the inputs, all from 0 to 1.
	Autoencoder bool
	// Plan, if not nil, refuses what cannot fit in memory before anything large is taken. shape is that of an input, and
	// n the number of training rows.
	Plan func(shape []int, n int) error
}

// openToTrain reads the data for a network that is still to be trained.
func openToTrain(ctx context.Context, c *job.Job, f *asked, net *Trainee) (*problem, error) {
	m := &trainedModel{Name: net.Name, Meta: &metadata{}, Outputs: net.Outputs}
	if net.Autoencoder {
		return f.autoencoder(ctx, c, m, net.Plan)
	}
	d, err := openData(ctx, c, f, &trainedModel{Meta: m.Meta})
	if err != nil {
		return nil, err
	}
	if m.Outputs == 0 {
		classes, err := labelsOf("{classes}", f.Data.Classes, d)
		if err != nil {
			return nil, err
		}
		m.Outputs = suitable(d, f.Fit.Likelihood, classes)
	}
	return f.problem(ctx, c, m, d, nil, nil, func(n int) error {
		if net.Plan == nil {
			return nil
		}
		return net.Plan(d.Shape, n)
	})
}

// suitable returns C for data, a likelihood and classes, which may be "" and nil: one for two classes or a regression,
// else one a class.
func suitable(d *dataset.Data, likelihood string, classes []int) int {
	if _, several := d.SeveralLabels(); several && (likelihood == "" || likelihood == "bernoulli") {
		return d.Train.Width()
	}
	lik := likelihoodNamed(likelihood)
	if hasLogVariances(lik) {
		return 2
	}
	if !d.IntegerLabels || likelihood != "" && !hasClasses(lik) {
		return 1
	}
	k := len(classes)
	if k == 0 {
		k = len(d.Classes())
	}
	if k == 2 && (likelihood == "" || !isSoftmax(lik)) {
		return 1
	}
	return k
}
