package sparse

import (
	"context"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
)

// Sums are the sums over training examples on which a posterior depends, in the
// features φ of the inducing examples. Sums of different data can be added,
// wherever they were computed.
type Sums struct {
	spec   sumsSpec
	n      int       // training examples
	gram   []float64 // Σ φΛφᵀ, rank×rank, upper triangle
	rhs    []float64 // Σ φb
	square []float64 // Σ φ∘φ: what each feature explains of Σ tr k_ii
	scalars
}

// scalars are the sums that are single numbers.
type scalars struct {
	logLik    float64 // Σ log p(y|f)
	expansion float64 // Σ rᵀe − ½eᵀΛe, e = m − f
	trace     float64 // Σ tr k_ii
	residual  float64 // Σ tr D_i, D = k − q
	weighted  float64 // Σ tr Λ_i D_i
}

func (s *scalars) list() []*float64 {
	return []*float64{&s.logLik, &s.expansion, &s.trace, &s.residual, &s.weighted}
}

// add adds t.
func (s *scalars) add(t *scalars) {
	from := t.list()
	for i, to := range s.list() {
		*to += *from[i]
	}
}

// A sumsSpec is what two Sums must have in common to be added.
type sumsSpec struct {
	m, c, rank int
	inputs     uint64  // fingerprint of the inducing examples, in their order
	trace      float64 // tr K_ZZ
}

func newSums(o sumsSpec) *Sums {
	return &Sums{spec: o, gram: make([]float64, o.rank*o.rank), rhs: make([]float64, o.rank), square: make([]float64, o.rank)}
}

// differs returns what differs between o and p, or "" where sums of both can be
// added.
func (o sumsSpec) differs(p sumsSpec) string {
	switch {
	case o.m != p.m || o.c != p.c || o.inputs != p.inputs:
		return "their inducing examples"
	case math.Abs(o.trace-p.trace) > 1e-9*math.Abs(o.trace):
		return "their prior"
	case o.rank != p.rank:
		return "the rank of the inducing examples' kernel"
	}
	return ""
}

// Len returns the number of training examples in the sums.
func (s *Sums) Len() int { return s.n }

// Clone returns a copy.
func (s *Sums) Clone() *Sums {
	t := *s
	t.gram, t.rhs, t.square = slices.Clone(s.gram), slices.Clone(s.rhs), slices.Clone(s.square)
	return &t
}

// Merge adds t, the sums of other data, to s. It fails with a *MismatchError
// where t belongs to other inducing examples or another prior.
func (s *Sums) Merge(t *Sums) error {
	if what := s.spec.differs(t.spec); what != "" {
		return &MismatchError{What: what}
	}
	s.n += t.n
	floats.Add(s.gram, t.gram)
	floats.Add(s.rhs, t.rhs)
	floats.Add(s.square, t.square)
	s.add(&t.scalars)
	return nil
}

// scaled returns the sums under prior variances multiplied by factor, which
// multiplies φ by its root.
func (s *Sums) scaled(factor float64) *Sums {
	t := s.Clone()
	floats.Scale(factor, t.gram)
	floats.Scale(factor, t.square)
	floats.Scale(math.Sqrt(factor), t.rhs)
	t.spec.trace *= factor
	t.trace *= factor
	t.residual *= factor
	t.weighted *= factor
	return t
}

func (s *Sums) symmetric() blas64.Symmetric {
	r := s.spec.rank
	return blas64.Symmetric{Uplo: blas.Upper, N: r, Stride: max(1, r), Data: s.gram}
}

// An adder adds one chunk of examples after another to sums.
type adder struct {
	b     *basis
	c     int // outputs of an example
	sums  *Sums
	root  []float64 // Rᵀφ
	diag  []float64 // k_ii
	prior []float64 // m
	b0    []float64 // b
	each  []scalars
}

func newAdder(b *basis, sums *Sums, n, c int) *adder {
	rows := min(n, linearize.Tile(c)) * c
	return &adder{b: b, c: c, sums: sums, root: make([]float64, rows*b.rank()), diag: make([]float64, rows*c),
		prior: make([]float64, rows), b0: make([]float64, rows), each: make([]scalars, rows/c)}
}

// add adds the examples of chunk p, with their sites s and features phi.
func (a *adder) add(ctx context.Context, p chunk, phi blas64.General, s sites.Arrays) error {
	prior := a.prior[:p.rows]
	a.b.k.MeanTo(prior, p.x)
	if err := sites.NotFinite("prior mean", prior, p.first, a.c); err != nil {
		return err
	}
	a.b.k.DiagTo(mat.NewDense(p.rows, a.c, a.diag[:p.rows*a.c]), p.x)
	return a.addWith(ctx, phi, s, prior)
}

// addWith is add where the prior mean m is known, and k_ii in a.diag.
func (a *adder) addWith(ctx context.Context, phi blas64.General, s sites.Arrays, prior []float64) error {
	b := a.b0[:phi.Rows]
	s.PseudoTargets(b, prior)
	root := dense.In(a.root, phi.Rows, phi.Cols)
	n := phi.Rows / a.c
	err := par.Do(ctx, n, func(i int) error {
		a.example(i, phi, root, s, prior)
		return nil
	})
	if err != nil {
		return err
	}
	// A' − I += Φ Λ Φᵀ, c += Φ b (E13)
	if err := dense.SyrkContext(ctx, blas.Trans, 1, root, 1, a.sums.symmetric()); err != nil {
		return err
	}
	dense.Gemv(blas.Trans, 1, phi, dense.Vector(b), 1, dense.Vector(a.sums.rhs))
	// Σ φ∘φ
	for i := range phi.Rows {
		for j, v := range dense.Row(phi, i) {
			a.sums.square[j] += v * v
		}
	}
	for i := range n {
		a.sums.add(&a.each[i])
	}
	a.sums.n += n
	return nil
}

// example computes the rows of Rᵀφ and the scalars of one example.
func (a *adder) example(i int, phi, root blas64.General, s sites.Arrays, prior []float64) {
	c := a.c
	phi, root = dense.Rows(phi, i*c, (i+1)*c), dense.Rows(root, i*c, (i+1)*c)
	k := a.diag[i*c*c : (i+1)*c*c]
	t := scalars{expansion: s.Expansion(i, prior)}
	for j := range c {
		row := phi.Data[j*phi.Stride:][:phi.Cols]
		t.trace += k[j*c+j]
		t.residual += k[j*c+j] - floats.Dot(row, row)
	}
	mulTransRoot(root, phi, s.Block(s.Root, i))
	// tr Λ_i (k_ii − q_ii)
	t.weighted = floats.Dot(s.Block(s.Lambda, i), k)
	for j := range c {
		row := root.Data[j*root.Stride:][:root.Cols]
		t.weighted -= floats.Dot(row, row)
	}
	a.each[i] = t
}

// mulTransRoot writes Rᵀφ for one example; dst and phi have one row for each output.
func mulTransRoot(dst, phi blas64.General, root []float64) {
	c := dst.Rows
	for j := range c {
		row := dst.Data[j*dst.Stride:][:dst.Cols]
		clear(row)
		for a := range c {
			if v := root[a*c+j]; v != 0 {
				floats.AddScaled(row, v, phi.Data[a*phi.Stride:][:phi.Cols])
			}
		}
	}
}

// The binary form of sums is little-endian and holds: magic and version; M, C, rank and N
// as uint64; the fingerprint of the inducing inputs; tr K_ZZ and the scalars; rhs; square;
// the upper triangle of gram by rows; the CRC-32C of everything before.
const (
	sumsMagic   = "fgpsums\x00"
	sumsVersion = 3
	sumsHeader  = len(sumsMagic) + 4 + 5*8
	sumsScalars = 6 // tr K_ZZ and scalars
)

var (
	_ encoding.BinaryMarshaler   = (*Sums)(nil)
	_ encoding.BinaryUnmarshaler = (*Sums)(nil)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumsSize returns the length of the binary form.
func sumsSize(rank int) int64 {
	r := int64(rank)
	floats := memory.Add(int64(sumsScalars), memory.Add(2*r, memory.Mul(r, r+1)/2))
	return memory.Add(int64(sumsHeader)+4, memory.Mul(8, floats))
}

// MarshalBinary writes the sums with a version and a CRC-32C.
func (s *Sums) MarshalBinary() ([]byte, error) {
	return encode(sumsMagic, sumsVersion, sumsSize(s.spec.rank), s.spec, s.n, nil, &s.scalars, s.vectors())
}

// vectors are the numbers that are no scalars, in the order of the binary form.
func (s *Sums) vectors() [][]float64 {
	list, r := [][]float64{s.rhs, s.square}, s.spec.rank
	for i := range r {
		list = append(list, s.gram[i*r+i:(i+1)*r])
	}
	return list
}

// encode returns the binary form of sums, size bytes. For a tile, more has the numbers that follow those of the spec.
func encode(magic string, version uint32, size int64, o sumsSpec, n int, more []int, s *scalars, vectors [][]float64) ([]byte, error) {
	buf := make([]byte, 0, size)
	buf = binary.LittleEndian.AppendUint32(append(buf, magic...), version)
	buf = o.append(buf, n)
	for _, v := range more {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(v))
	}
	buf = appendFloats(buf, o.trace)
	for _, v := range s.list() {
		buf = appendFloats(buf, *v)
	}
	for _, v := range vectors {
		buf = appendFloats(buf, v...)
	}
	return binary.LittleEndian.AppendUint32(buf, crc32.Checksum(buf, castagnoli)), nil
}

// decode reads the numbers that encode wrote after the header.
func decode(numbers []byte, trace *float64, s *scalars, vectors [][]float64) {
	r := floatReader(numbers)
	for _, v := range append([]*float64{trace}, s.list()...) {
		*v = r.next()
	}
	for _, v := range vectors {
		for i := range v {
			v[i] = r.next()
		}
	}
}

func appendFloats(buf []byte, v ...float64) []byte {
	for _, x := range v {
		buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(x))
	}
	return buf
}

// append appends the numbers of the spec, without tr K_ZZ, and the number n of examples to buf.
func (o sumsSpec) append(buf []byte, n int) []byte {
	for _, v := range []uint64{uint64(o.m), uint64(o.c), uint64(o.rank), uint64(n), o.inputs} {
		buf = binary.LittleEndian.AppendUint64(buf, v)
	}
	return buf
}

var errSumsSize = errors.New("sparse: the sums have an impossible size")

// readSpec reads the numbers that append writes.
func readSpec(b []byte) (o sumsSpec, n int, err error) {
	var head [5]uint64
	for i := range head {
		head[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	for _, v := range head[:4] {
		if v > math.MaxInt32 {
			return o, 0, errSumsSize
		}
	}
	o = sumsSpec{m: int(head[0]), c: int(head[1]), rank: int(head[2]), inputs: head[4]}
	if int64(o.rank) > memory.Mul(int64(o.m), int64(o.c)) {
		return o, 0, errSumsSize
	}
	return o, int(head[3]), nil
}

// checked returns the data without their checksum. It returns an error for data that do not
// begin with magic and the version, are shorter than least bytes, or are damaged.
func checked(data []byte, magic string, version uint32, least int) ([]byte, error) {
	if len(data) < least+4 || string(data[:len(magic)]) != magic {
		return nil, errors.New("sparse: the data are not those of Sums.MarshalBinary")
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errors.New("sparse: the sums are damaged: their checksum is wrong")
	}
	if v := binary.LittleEndian.Uint32(body[len(magic):]); v != version {
		return nil, fmt.Errorf("sparse: sums of version %d; this program reads version %d; compute them again", v, version)
	}
	return body, nil
}

// UnmarshalBinary reads sums that MarshalBinary wrote. Data that are cut
// short, damaged or of another version are an error, and s is then unchanged.
func (s *Sums) UnmarshalBinary(data []byte) error {
	body, err := checked(data, sumsMagic, sumsVersion, sumsHeader)
	if err != nil {
		return err
	}
	o, n, err := readSpec(body[len(sumsMagic)+4:])
	if err != nil {
		return err
	}
	if int64(len(body)+4) != sumsSize(o.rank) {
		return errSumsSize
	}
	t := newSums(o)
	t.n = n
	decode(body[sumsHeader:], &t.spec.trace, &t.scalars, t.vectors())
	*s = *t
	return nil
}

// Save adds the sums to a store as MarshalBinary writes them, in one section.
func (s *Sums) Save(w *store.Writer, name string) {
	data, _ := s.MarshalBinary() // never fails
	w.Bytes(name, data)
}

// LoadSums returns the sums that Sums.Save wrote. It returns nil where r has an error.
func LoadSums(r *store.Reader, name string) *Sums {
	data, s := r.Bytes(name), new(Sums)
	if r.Err() != nil {
		return nil
	}
	if err := s.UnmarshalBinary(data); err != nil {
		_ = r.Fail(saved.WriteAgain, "%v", err)
		return nil
	}
	return s
}

// A floatReader reads float64 numbers, little-endian.
type floatReader []byte

func (r *floatReader) next() float64 {
	v := math.Float64frombits(binary.LittleEndian.Uint64(*r))
	*r = (*r)[8:]
	return v
}
