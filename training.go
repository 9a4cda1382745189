package funcgp

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize/network"
)

// A TrainingSet is data that a network is trained on by package linearize/train, under the likelihood and the prior of the
// posterior that will be fitted to it. Its rows are for its own methods.
//
//	s, err := funcgp.OpenToTrain(ctx, data, nil, &funcgp.Trainee{Name: "the network"})
//	...
//	defer s.Close()
//	info := s.Info()
//	net, err := network.Sequential(info.InputShape, network.Flatten{}, network.Dense{Units: info.Outputs})
//	...
//	inUnits, err := s.InUnits(net)
//	...
//	x, y, loss, err := s.Examples(ctx, s.TrainingRows())
//	...
//	trained, _, err := train.MAP(ctx, inUnits, x, y, loss, &train.Options{Precision: precision})
type TrainingSet struct {
	session     *Session
	autoencoder bool
	test        *Rows // nil where there are none, or none were asked for
}

// OpenToTrain reads data for a network that is still to be trained. It reads the test rows too, so that a fault
// in them is found before the training. The options may be nil; the training uses those of the likelihood, the
// prior and the scaling.
func OpenToTrain(ctx context.Context, d Data, o *FitOptions, net *Trainee) (*TrainingSet, error) {
	s, err := openTraining(ctx, Model{}, d, o, net.Autoencoder, func(ctx context.Context, c *job.Job, f *asked) (*problem, error) {
		return openToTrain(ctx, c, f, net)
	})
	if err != nil || s.session.problem.Examples.TestPart().Len() == 0 {
		return s, err
	}
	rows, err := s.session.problem.Examples.Test(0, nil, "")
	if err == nil && !s.autoencoder {
		_, err = s.session.problem.Targets(rows)
	}
	if err != nil {
		s.Close()
		return nil, named(err)
	}
	s.test = &Rows{asked: rows}
	return s, nil
}

// OpenAutoencoder reads a trained autoencoder, whose head is part of it, and its data, whose targets are their inputs.
// decoder is the file of the decoder where the model is the encoder alone; "" where it is both. The options may be nil.
func OpenAutoencoder(ctx context.Context, m Model, d Data, o *FitOptions, decoder string) (*TrainingSet, error) {
	return openTraining(ctx, m, d, o, true, func(ctx context.Context, c *job.Job, f *asked) (*problem, error) {
		return openAutoencoder(ctx, c, f, decoder)
	})
}

func openTraining(ctx context.Context, m Model, d Data, o *FitOptions, autoencoder bool, open opener) (*TrainingSet, error) {
	if o == nil {
		o = &FitOptions{}
	}
	s, err := start(ctx, Source{Model: m, Data: d, Fit: *o}, open)
	if err != nil {
		return nil, err
	}
	return &TrainingSet{session: s, autoencoder: autoencoder}, nil
}

// IsAutoencoder tells whether the file of a model records that it is an autoencoder. It reports no error;
// opening the file does.
func IsAutoencoder(ctx context.Context, m Model, l Limits) bool {
	if m.File == "" {
		return false
	}
	net, err := network.ReadONNXFile(ctx, m.File, &network.ReadOptions{MaxMemory: l.Memory})
	return err == nil && net.Metadata()[keyCode] != ""
}

// Close closes the files of the data.
func (s *TrainingSet) Close() { s.session.Close() }

// Names are what messages call the model and the data.
func (s *TrainingSet) Names() (model, data string) {
	return s.session.problem.Model.Name, s.session.problem.Examples.Data.Source
}

// Info says what the training is of: N, C, the shape of an input, the likelihood with its noise variance, NaN where it has
// none, and the prior precision.
func (s *TrainingSet) Info() Info {
	p := s.session.problem
	out := infoOf(p)
	out.Examples, out.Outputs = p.Examples.Train.Len(), p.Model.Outputs
	out.PriorPrecision, out.NoiseVariance, out.LogEvidence = result.Float(p.Task.Precision), result.Undefined(), result.Undefined()
	out.PriorPrecisionOrigin = p.Task.PrecisionFrom.Text.In(s.session.job.Words)
	if p.Task.Noise > 0 {
		out.NoiseVariance = result.Float(p.Task.Noise)
	}
	return out
}

// Network is a trained autoencoder with the name of the code that it records, "" for none. It is nil for a network that is
// still to be trained.
func (s *TrainingSet) Network() (net *network.Network, code string) {
	if net = s.session.problem.Model.Net; net == nil {
		return nil, ""
	}
	return net, s.session.problem.Model.Code()
}

// TrainingRows are the rows to train on.
func (s *TrainingSet) TrainingRows() *Rows { return &Rows{asked: s.session.problem.Examples.Train} }

// TestRows are all test rows, or where there are none the validation rows; nil where there are none of these, and of a
// trained autoencoder.
func (s *TrainingSet) TestRows() *Rows { return s.test }

// HeldOut are the rows that say when a training stops: the validation rows, or the last training rows that are not trained
// on. It is an error where there are none.
func (s *TrainingSet) HeldOut() (*Rows, error) {
	rows, err := s.session.problem.HeldOut("{early-stopping}", "stop by")
	if err != nil {
		return nil, named(err)
	}
	return &Rows{asked: rows}, nil
}

// Select does what Session.Select does.
func (s *TrainingSet) Select(ctx context.Context, q *Query, count int) (*Rows, error) {
	return s.session.Select(ctx, q, count)
}

// Examples returns rows in the form that a training takes: the inputs, N×D, scaled as the options say; the
// targets, N×T; and the loss, which is −log p with the weights of classes and rows. The targets of an
// autoencoder are its inputs.
func (s *TrainingSet) Examples(ctx context.Context, rows *Rows) (x, y *mat.Dense, loss network.Loss, err error) {
	x, to, err := s.Targets(ctx, rows)
	if err != nil {
		return nil, nil, nil, err
	}
	y, loss = trainingLoss(to)
	return x, y, loss, nil
}

// Targets are rows as package glm/variational and other posteriors over parameters take them: the inputs of Examples, and
// the targets with their likelihood and the weights of classes and rows.
func (s *TrainingSet) Targets(ctx context.Context, rows *Rows) (x *mat.Dense, y *gp.Targets, err error) {
	p := s.session.problem
	if x, err = p.Examples.Inputs(ctx, rows.asked, 0, rows.Len()); err != nil {
		return nil, nil, named(err)
	}
	if s.autoencoder {
		return x, gp.NewTargets(x, p.Task.Likelihood), nil
	}
	of, err := p.Targets(rows.asked)
	if err != nil {
		return nil, nil, named(err)
	}
	return x, p.Task.objective(rows.asked, of, p.Model.Outputs), nil
}

// InUnits is a network for standardized targets with outputs in the units of the data, whose training has the same
// optimum; net itself where the targets are not scaled.
func (s *TrainingSet) InUnits(net *network.Network) (*network.Network, error) {
	out, err := s.session.problem.Examples.Scaling.Rescaled(net)
	return out, named(err)
}

// Score is the accuracy and the mean negative log likelihood, in nats, of a network with outputs in the units of the data
// on rows with targets. Both are NaN where the rows are nil, and the accuracy for a regression; of several labels it is the
// share of all labels.
func (s *TrainingSet) Score(ctx context.Context, inUnits *network.Network, rows *Rows) (accuracy, nll result.Float, err error) {
	if rows == nil {
		return result.Undefined(), result.Undefined(), nil
	}
	p := s.session.problem
	y, err := p.Targets(rows.asked)
	if err == nil {
		accuracy, nll, err = p.Model.Trained(inUnits).Score(ctx, p, rows.asked, y)
	}
	return accuracy, nll, named(err)
}

// Metadata says what a network is trained on, for network.Network.WithMetadata, so that fits of its file need no options.
// code names the code of an autoencoder, "" of other networks.
func (s *TrainingSet) Metadata(code string) map[string]string {
	return s.session.problem.TrainMetadata(s.session.job.Args, code)
}
