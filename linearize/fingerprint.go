package linearize

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/par"
)

// A Sum is a SHA-256 checksum. The zero Sum means unknown.
type Sum [sha256.Size]byte

// SumOf returns the checksum of the numbers in parts, bit for bit: 0 and −0 differ.
func SumOf(parts ...[]float64) Sum {
	h, buf := sha256.New(), []byte(nil)
	for _, v := range parts {
		buf = binary.LittleEndian.AppendUint64(buf[:0], uint64(len(v)))
		h.Write(buf)
		for len(v) > 0 {
			some := v[:min(len(v), 512)]
			buf = appendFloats(buf[:0], some)
			h.Write(buf)
			v = v[len(some):]
		}
	}
	return Sum(h.Sum(nil))
}

func appendFloats(buf []byte, v []float64) []byte {
	for _, x := range v {
		buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(x))
	}
	return buf
}

// String returns the first 16 hexadecimal digits.
func (s Sum) String() string { return hex.EncodeToString(s[:8]) }

// MarshalText implements encoding.TextMarshaler with all digits.
func (s Sum) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Sum) UnmarshalText(text []byte) error {
	if len(text) != 2*len(s) {
		return fmt.Errorf("linearize: a checksum has %d digits, not %d", 2*len(s), len(text))
	}
	_, err := hex.Decode(s[:], text)
	return err
}

// A ModelFingerprint identifies a model and the parameters at which it is linearized. It is zero for a model that
// is not Fingerprinted.
type ModelFingerprint struct {
	Graph      Sum // operations, shapes, constants, and which tensors are parameters
	Parameters Sum // SumOf(θ*)
}

// Mismatch says in words how the model with fingerprint given differs from the model with fingerprint m. It
// compares only the sums that are known of both. It returns "" where these are equal.
func (m ModelFingerprint) Mismatch(given ModelFingerprint) string {
	differ := func(a, b Sum) bool { return a != b && a != Sum{} && b != Sum{} }
	switch {
	case differ(m.Graph, given.Graph):
		return "the graph of the network is another"
	case differ(m.Parameters, given.Parameters):
		return "the parameters of the network are others"
	}
	return ""
}

// A Fingerprinted is a Model that identifies itself. The batches of its Linearize have the same fingerprint in
// Batch.Model.
type Fingerprinted interface {
	Model
	Fingerprint() ModelFingerprint
}

// A DataFingerprint identifies inputs bit for bit. Its sums are zero if the batches have no inputs.
type DataFingerprint struct {
	N, D   int
	Inputs Sum // rows in their order
	Rows   Sum // rows in any order
}

// A Fingerprint identifies the examples of a Source: a model and its inputs.
// Fingerprints are comparable with ==.
type Fingerprint struct {
	Model ModelFingerprint
	Data  DataFingerprint
}

// Complete reports whether both the model and the inputs are known.
func (f Fingerprint) Complete() bool {
	return f.Model != ModelFingerprint{} && f.Data.Inputs != Sum{}
}

// Difference says in words how the examples with fingerprint given differ from the examples with fingerprint f. It
// returns "" if they are the same.
func (f Fingerprint) Difference(given Fingerprint) string {
	m, d := f.Model, f.Data
	switch {
	case f == given:
		return ""
	case m != given.Model && (m == ModelFingerprint{} || given.Model == ModelFingerprint{}):
		return "one of the models has no fingerprint"
	case m.Graph != given.Model.Graph:
		return "the graph of the network is another"
	case m.Parameters != given.Model.Parameters:
		return "the parameters of the network are others"
	case d.N != given.Data.N:
		return fmt.Sprintf("the number of rows is %d, not %d", given.Data.N, d.N)
	case d.D != given.Data.D:
		return fmt.Sprintf("an example has %d inputs, not %d", given.Data.D, d.D)
	case d.Rows == given.Data.Rows:
		return "the order of the rows is another"
	}
	return "the inputs are others"
}

// An InputSource is a Source that yields its inputs without linearizing them, so that FingerprintOf is fast.
type InputSource interface {
	Source
	// Inputs yields the inputs of the examples in their order, part by part, and the fingerprint of the model. A
	// part is valid until yield returns.
	Inputs(ctx context.Context, yield func(x *mat.Dense, m ModelFingerprint) error) error
}

// errNoInputs ends a pass over batches without inputs.
var errNoInputs = errors.New("linearize: the examples show no inputs")

// FingerprintOf returns the fingerprint of the examples of src. It takes one pass over the inputs of an
// InputSource, and over src otherwise. The fingerprint of the inputs is zero if Batch.X is nil, and that of the
// model if Batch.Model is zero.
func FingerprintOf(ctx context.Context, src Source) (Fingerprint, error) {
	f := Fingerprint{Data: DataFingerprint{N: src.Len()}}
	var (
		ordered = sha256.New()
		rows    [len(Sum{}) / 8]uint64
		seen    int
	)
	err := eachInput(ctx, src, func(x *mat.Dense, m ModelFingerprint) error {
		if f.Model = m; x == nil {
			return errNoInputs
		}
		n, d := x.Dims()
		f.Data.D, seen = d, seen+n
		for _, row := range sumsOf(x) {
			ordered.Write(row[:])
			// Add the checksums of the rows: the sum does not depend on their order.
			for j := range rows {
				rows[j] += binary.LittleEndian.Uint64(row[8*j:])
			}
		}
		return ctx.Err()
	})
	switch {
	case errors.Is(err, errNoInputs):
		f.Data.D = 0
		return f, nil
	case err != nil:
		return Fingerprint{}, err
	case seen != src.Len():
		return Fingerprint{}, fmt.Errorf("linearize: a source showed the inputs of %d of %d examples", seen, src.Len())
	}
	ordered.Sum(f.Data.Inputs[:0])
	for j, v := range rows {
		binary.LittleEndian.PutUint64(f.Data.Rows[8*j:], v)
	}
	return f, nil
}

// sumsOf returns the checksum of each row of x.
func sumsOf(x *mat.Dense) []Sum {
	n, d := x.Dims()
	sums := make([]Sum, n)
	const tile = 64
	// A context that never ends gives no error.
	_ = par.Do(context.Background(), par.Tiles(n, tile), func(t int) error {
		buf := make([]byte, 0, 8*d)
		lo, hi := par.Bounds(t, n, tile)
		for i := lo; i < hi; i++ {
			buf = appendFloats(buf[:0], x.RawRowView(i))
			sums[i] = sha256.Sum256(buf)
		}
		return nil
	})
	return sums
}

// eachInput yields the inputs of src. It linearizes src if src is no InputSource.
func eachInput(ctx context.Context, src Source, yield func(x *mat.Dense, m ModelFingerprint) error) error {
	if s, ok := src.(InputSource); ok {
		return s.Inputs(ctx, yield)
	}
	return ordered(ctx, src, func(_ int, b *Batch) error { return yield(b.X, b.Model) })
}

var (
	_ InputSource = (*Batch)(nil)
	_ InputSource = (*stream)(nil)
)

// Inputs implements InputSource.
func (b *Batch) Inputs(ctx context.Context, yield func(x *mat.Dense, m ModelFingerprint) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return yield(b.X, b.Model)
}

// Inputs implements InputSource.
func (s *stream) Inputs(ctx context.Context, yield func(x *mat.Dense, m ModelFingerprint) error) error {
	var m ModelFingerprint
	if f, ok := s.model.(Fingerprinted); ok {
		m = f.Fingerprint()
	}
	for lo := 0; lo < s.n; lo += s.tile {
		if err := ctx.Err(); err != nil {
			return err
		}
		x, err := s.rows(lo, min(lo+s.tile, s.n))
		if err != nil {
			return err
		}
		if err := yield(x, m); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// ofOutput returns the fingerprint of the model with output c alone.
func (m ModelFingerprint) ofOutput(c int) ModelFingerprint {
	if m == (ModelFingerprint{}) {
		return m
	}
	buf := binary.LittleEndian.AppendUint64(append([]byte("output "), m.Graph[:]...), uint64(c))
	return ModelFingerprint{Graph: sha256.Sum256(buf), Parameters: m.Parameters}
}
