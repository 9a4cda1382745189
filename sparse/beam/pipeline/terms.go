package pipeline

import (
	"context"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/funcgp/funcgp/sparse/parts"
	"github.com/funcgp/funcgp/sparse/shard"
)

func init() {
	register.DoFn3x1[context.Context, shard.Part, func(*parts.TermsPart), error](&termsFn{})
	register.Emitter1[*parts.TermsPart]()
	register.Combiner1[*parts.TermsPart](&addTerms{})
	register.DoFn2x1[context.Context, *parts.TermsPart, error](&writeTermsFn{})
	beam.RegisterCoder(reflect.TypeFor[*parts.TermsPart](), encodeTerms, decodeTerms)
}

func encodeTerms(p *parts.TermsPart) ([]byte, error) { return p.MarshalBinary() }

func decodeTerms(data []byte) (*parts.TermsPart, error) {
	p := new(parts.TermsPart)
	return p, p.UnmarshalBinary(data)
}

// Terms returns the explanation of all parts, a PCollection<*parts.TermsPart> of one element,
// which lists the largest terms, as many as the question asks for. in is a
// PCollection<shard.Part>, and the paths of the options are absolute. posterior is the SHA-256
// of the posterior's file; a worker that finds another file fails.
func Terms(s beam.Scope, in beam.PCollection, o parts.TermsOptions, posterior string) beam.PCollection {
	s = s.Scope("terms")
	return beam.Combine(s, &addTerms{}, beam.ParDo(s, &termsFn{Options: text(&o), SHA: posterior}, in))
}

// A termsFn computes the terms of parts of the training rows, and merges the parts of a bundle.
type termsFn struct {
	Options string // options in the form of the function text
	SHA     string // SHA-256 of the posterior's file

	sum *parts.TermsPart // merged parts of the bundle so far; nil for none
}

// StartBundle begins with no parts.
func (f *termsFn) StartBundle(context.Context, func(*parts.TermsPart)) error {
	f.sum = nil
	return nil
}

// ProcessElement computes the terms of one part.
func (f *termsFn) ProcessElement(ctx context.Context, p shard.Part, _ func(*parts.TermsPart)) error {
	return workerError(openings.with(ctx, f.Options, func(t *parts.Terms) error {
		if err := checkPart(p, t.Len()); err != nil {
			return err
		}
		if t.Posterior() != f.SHA {
			return fmt.Errorf("a worker finds another posterior than where the pipeline was started; all machines need the same files at the same paths, which are those of %s", f.Options)
		}
		done, err := t.Part(ctx, p)
		if err == nil && f.sum != nil {
			done, err = f.sum.Add(done)
		}
		if err == nil {
			f.sum = done
		}
		return err
	}))
}

// FinishBundle emits the merged parts of the bundle.
func (f *termsFn) FinishBundle(_ context.Context, emit func(*parts.TermsPart)) error {
	if f.sum != nil {
		emit(f.sum)
	}
	f.sum = nil
	return nil
}

// addTerms merges parts of explanations.
type addTerms struct{}

// MergeAccumulators merges a and b.
func (*addTerms) MergeAccumulators(a, b *parts.TermsPart) (*parts.TermsPart, error) {
	sum, err := a.Add(b)
	return sum, workerError(err)
}

// WriteTerms writes the result of Terms to a file, from which gpexplain merge prints the
// explanation. It fails if the result is not over n training rows.
func WriteTerms(s beam.Scope, terms beam.PCollection, n int, path string) {
	beam.ParDo0(s.Scope("write"), &writeTermsFn{N: n, Path: path}, terms)
}

// A writeTermsFn writes an explanation to a file, which appears when it is complete.
type writeTermsFn struct {
	N    int
	Path string
}

// ProcessElement writes the explanation.
func (f *writeTermsFn) ProcessElement(_ context.Context, p *parts.TermsPart) error {
	if p.Len() != f.N {
		return workerError(fmt.Errorf("the parts are of %d training rows together, not of %d", p.Len(), f.N))
	}
	return workerError(p.Write(f.Path))
}
