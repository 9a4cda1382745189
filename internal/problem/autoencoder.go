package problem

import (
	"context"
	"fmt"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// KeyCode names the code of an autoencoder in the metadata of its model.
const KeyCode = "funcgp.code"

// Code returns the name of the code that the model records; "" for one that is no autoencoder.
func (m *Model) Code() string { return m.Net.Metadata()[KeyCode] }

// IsAutoencoder tells whether the file of the model records that it is an autoencoder. What is wrong with the file,
// opening the problem says.
func IsAutoencoder(ctx context.Context, f *Flags) bool {
	if f.Model.File == "" {
		return false
	}
	net, err := network.ReadONNXFile(ctx, f.Model.File, &network.ReadOptions{MaxMemory: f.Model.Memory})
	return err == nil && net.Metadata()[KeyCode] != ""
}

// An AutoencoderSource says where the network of an autoencoder comes from.
type AutoencoderSource struct {
	// Build, if not nil, makes the network, of this name, for data.
	Build func(d *dataset.Data) (*network.Network, error)
	Name  string
	// Decoder is the file of the decoder where the model is the encoder alone; "" where it is both.
	Decoder string
}

// OpenAutoencoder reads the data of an autoencoder, whose targets are its inputs, and its network, whose head is part
// of it.
func OpenAutoencoder(ctx context.Context, c *job.Job, f *Flags, src AutoencoderSource) (*Problem, error) {
	m := &Model{Name: src.Name, Meta: &Metadata{}}
	var err error
	if src.Build == nil {
		if m, err = ReadModel(ctx, c, &f.Model); err != nil {
			return nil, err
		}
		net, err := m.Net.WithHead(head.Keep)
		if err != nil {
			return nil, err
		}
		if src.Decoder != "" {
			second, err := network.ReadONNXFile(ctx, src.Decoder, &network.ReadOptions{Head: head.Keep, MaxMemory: f.Limits.Memory})
			if err != nil {
				return nil, modelError(src.Decoder, err)
			}
			metadata := net.Metadata()
			joined, code, err := network.Join(net, second)
			if err != nil {
				return nil, fmt.Errorf("%s and %s: %w", m.Name, src.Decoder, err)
			}
			metadata[KeyCode] = code
			net = joined.WithMetadata(metadata)
		}
		m = m.Trained(net)
	}
	d, err := openData(ctx, c, &f.Data, &f.Model, &f.Task, &Model{Meta: m.Meta}, f.Limits.Memory)
	if err != nil {
		return nil, err
	}
	classes, err := f.Data.labels(d)
	if err != nil {
		return nil, err
	}
	if src.Build != nil {
		if m.Net, err = src.Build(d); err != nil {
			return nil, err
		}
	}
	_, m.Outputs, _ = m.Net.Dims()
	if want, _, _ := m.Net.Dims(); Elements(d.Shape) != want {
		return nil, option.Errorf("%s: an input has %d numbers (shape %v), but %s takes %d (shape %v); give {data} that the model was trained on", d.Source, Elements(d.Shape), d.Shape, m.Name, want, m.Net.InputShape())
	}
	t := &Task{Likelihood: LikelihoodNamed("gaussian"), Classes: classes}
	t.Precision, t.PrecisionFrom = firstPositive(f.Task.Prior.Precision, fromPrecision, m.Meta.Precision, m.Meta.precisionFrom)
	t.Noise, t.NoiseFrom = firstPositive(f.Task.NoiseVariance, fromNoise, m.Meta.Noise, m.Meta.noiseFrom)
	rows, err := chooseRows(ctx, c, &f.Data, m, t, d, nil)
	if err != nil {
		return nil, err
	}
	return &Problem{Model: m, Task: t, Examples: &Examples{Data: d, Train: rows, classes: classes, Scaling: &Scaling{}}, Limits: f.Limits, Words: c.Words, flags: f}, nil
}

// AutoencoderMetadata says what an autoencoder was trained on, by which command line, and what its code is named.
func (p *Problem) AutoencoderMetadata(args []string, code string) map[string]string {
	kv := p.TrainMetadata(args)
	kv[KeyCode] = code
	delete(kv, KeyClasses)
	return kv
}
