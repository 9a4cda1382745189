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
// whose lists hold as many of the largest terms as were asked for. in is a
// PCollection<shard.Part>, and the paths of the options are absolute. posterior is the SHA-256 of the posterior's file; a worker that finds another
// fails.
func Terms(s beam.Scope, in beam.PCollection, o parts.TermsOptions, posterior string) beam.PCollection {
	s = s.Scope("terms")
	return beam.Combine(s, &addTerms{}, beam.ParDo(s, &termsFn{Options: text(&o), SHA: posterior}, in))
}

// A termsFn explains by parts of the training rows, and merges those of a bundle.
type termsFn struct {
	Options string // as of text
	SHA     string // of the posterior's file

	sum *parts.TermsPart // of the bundle so far; nil for none
}

// StartBundle begins with no parts.
func (f *termsFn) StartBundle(context.Context, func(*parts.TermsPart)) error {
	f.sum = nil
	return nil
}

// ProcessElement explains by the training rows of one part.
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

// FinishBundle hands on what the bundle adds up to.
func (f *termsFn) FinishBundle(_ context.Context, emit func(*parts.TermsPart)) error {
	if f.sum != nil {
		emit(f.sum)
	}
	f.sum = nil
	return nil
}

// addTerms merges explanations by parts.
type addTerms struct{}

// MergeAccumulators returns a and b together.
func (*addTerms) MergeAccumulators(a, b *parts.TermsPart) (*parts.TermsPart, error) {
	sum, err := a.Add(b)
	return sum, workerError(err)
}

// WriteTerms writes the result of Terms to a file of which gpexplain merge prints the
// explanation. It fails where that is not of n training rows.
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
