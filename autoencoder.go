package funcgp

import (
	"context"
	"fmt"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// keyCode names the code of an autoencoder in the metadata of its model.
const keyCode = "funcgp.code"

// Code returns the name of the code that the model records; "" for one that is no autoencoder.
func (m *trainedModel) Code() string { return m.Net.Metadata()[keyCode] }

// openAutoencoder reads an autoencoder, whose head is part of it, and its data, whose targets are their inputs. decoder
// is the file of the decoder where the model is the encoder alone; "" where it is both.
func openAutoencoder(ctx context.Context, c *job.Job, f *asked, decoder string) (*problem, error) {
	m, err := readModel(ctx, c, f)
	if err != nil {
		return nil, err
	}
	net, err := m.Net.WithHead(head.Keep)
	if err != nil {
		return nil, err
	}
	if decoder != "" {
		second, err := network.ReadONNXFile(ctx, decoder, &network.ReadOptions{Head: head.Keep, MaxMemory: f.Fit.Memory})
		if err != nil {
			return nil, modelError(decoder, err)
		}
		metadata := net.Metadata()
		joined, code, err := network.Join(net, second)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", m.Name, decoder, err)
		}
		metadata[keyCode] = code
		net = joined.WithMetadata(metadata)
	}
	return f.autoencoder(ctx, c, m.Trained(net), nil)
}

// autoencoder reads the data of an autoencoder, whose network is nil where it is still to be trained. plan, if not nil,
// is that of a Trainee.
func (f *asked) autoencoder(ctx context.Context, c *job.Job, m *trainedModel, plan func(shape []int, n int) error) (*problem, error) {
	d, err := openData(ctx, c, f, &trainedModel{Meta: m.Meta})
	if err != nil {
		return nil, err
	}
	classes, err := labelsOf("{classes}", f.Data.Classes, d)
	if err != nil {
		return nil, err
	}
	if m.Outputs = elements(d.Shape); m.Net != nil {
		want, _, _ := m.Net.Dims()
		if m.Outputs != want {
			return nil, option.Errorf("%s: an input has %d numbers (shape %v), but %s takes %d (shape %v); give {data} that the model was trained on", d.Source, m.Outputs, d.Shape, m.Name, want, m.Net.InputShape())
		}
	}
	t := &problemTask{Classes: classes}
	t.Precision, t.PrecisionFrom = firstPositive(f.Fit.Prior.Precision, fromPrecision, m.Meta.Precision, m.Meta.precisionFrom)
	t.Noise, t.NoiseFrom = firstPositive(f.Fit.NoiseVariance, fromNoise, m.Meta.Noise, m.Meta.noiseFrom)
	if t.Likelihood, err = glm.NewGaussian(t.Noise); err != nil {
		return nil, err
	}
	rows, err := chooseRows(ctx, c, f, m, t, d, nil)
	if err == nil && plan != nil {
		err = plan(d.Shape, rows.Len())
	}
	if err != nil {
		return nil, err
	}
	return &problem{Model: m, Task: t, Examples: &examples{Data: d, Train: rows, classes: classes, Scaling: &dataScaling{}}, Memory: f.Fit.Memory, Seed: f.Fit.Seed, Words: c.Words, asked: f}, nil
}
