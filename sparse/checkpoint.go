package sparse

import (
	"bytes"
	"context"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"

	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// A Checkpoint is the state of Fit and Refit between two chunks of data.
// Options.Checkpoint receives it, and Options.Resume goes on from it without
// linearizing again the examples that the pass has summed. It contains no training
// inputs.
//
// A resumed fit computes the kernel of the inducing examples again, and a refit
// also its sites, from the function values in the checkpoint.
type Checkpoint struct {
	fitIdentity
	next   int         // the first example that is not in the sums
	sums   *Sums       // of the pass
	newton *refitState // of a refit
	dual   *dualState  // of the pass for α of a Nyström fit, whose sums are whole; nil before it
}

// A dualState is the pass for α after the examples before next.
type dualState struct {
	next          int
	pseudo, alpha []float64 // b and α of these examples
}

// Refit tells whether the checkpoint comes from Refit rather than from Fit.
func (c *Checkpoint) Refit() bool { return c.refit }

// Step returns how many Newton steps were finished; it is 0 for Fit.
func (c *Checkpoint) Step() int {
	if c.newton == nil {
		return 0
	}
	return c.newton.step
}

// Examples returns how many training examples the pass over the data has summed,
// and how many there are. The pass is finished where both are equal. In the pass for α,
// which follows in a Nyström fit, it counts those of this pass.
func (c *Checkpoint) Examples() (done, total int) {
	if c.dual != nil {
		return c.dual.next, c.n
	}
	return c.next, c.n
}

// ResumeError reports a checkpoint that comes from another fit than the one that
// was to go on from it.
type ResumeError struct {
	What string // what differs, such as "their targets"
}

func (e *ResumeError) Error() string {
	return "sparse: the checkpoint and this fit differ in " + e.What + "; resume with the data and options that it was made from, or start again without it"
}

// A fitIdentity identifies the fit that a checkpoint belongs to.
type fitIdentity struct {
	spec      sumsSpec
	n         int
	refit     bool
	checksums [identityChecksums]checksum // of m at the inducing examples, and of the sites' f, r and Λ or a refit's targets
}

const identityChecksums = 4

// fitIdentity returns the identity of a fit to n examples, whose sites or targets
// have these checksums.
func (b *basis) fitIdentity(o sumsSpec, n int, refit bool, marks ...checksum) fitIdentity {
	m := make([]float64, b.rows())
	b.k.MeanTo(m, b.z.Batch)
	to := fitIdentity{spec: o, n: n, refit: refit}
	copy(to.checksums[:], append([]checksum{checksumOf(m)}, marks...))
	return to
}

// check returns a *ResumeError where c does not belong to the fit to.
func (c *Checkpoint) check(to fitIdentity) error {
	names := [identityChecksums]string{"their prior mean or network", "the function values of their sites", "the residuals of their sites", "the Λ of their sites"}
	if to.refit {
		names[1] = "their targets"
	}
	switch {
	case c.sums == nil:
		return errors.New("sparse: the checkpoint is empty; it must be written down before Options.Checkpoint returns")
	case c.refit != to.refit:
		return &ResumeError{What: "their kind: one is a refit, the other is not"}
	case c.n != to.n:
		return &ResumeError{What: fmt.Sprintf("their number of training examples, %d and %d", c.n, to.n)}
	}
	if what := c.spec.differs(to.spec); what != "" {
		return &ResumeError{What: what}
	}
	for i, m := range c.checksums {
		if !m.same(to.checksums[i]) {
			return &ResumeError{What: names[i]}
		}
	}
	return nil
}

// A checksum of a vector is its sum with fixed random weights. Checksums are equal
// but for rounding, which may differ between processors, relative to the scale Σ|v|.
type checksum struct {
	sum, scale float64
}

// checksumRounding is the difference of two checksums, relative to their scale, that
// rounding may cause. One changed label among 10⁷ causes more.
const checksumRounding = 1e-9

func checksumOf(v []float64) checksum {
	var m checksum
	weights := rand.NewPCG(1, 1)
	for _, x := range v {
		m.sum += float64(int64(weights.Uint64())) * 0x1p-63 * x
		m.scale += math.Abs(x)
	}
	return m
}

func (m checksum) same(o checksum) bool {
	return math.Abs(m.sum-o.sum) <= checksumRounding*math.Max(m.scale, o.scale)
}

// checksumsOf returns the checksums of the function values, residuals and Λ.
func checksumsOf(s sites.Arrays) []checksum {
	return []checksum{checksumOf(s.F), checksumOf(s.R), checksumOf(s.Lambda)}
}

// A checkpointer calls Options.Checkpoint with the state of passes over the data.
type checkpointer struct {
	call   func(*Checkpoint) error
	every  int // examples
	resume *Checkpoint
}

// defaultCheckpointChunks is the default of Options.CheckpointEvery in chunks.
const defaultCheckpointChunks = 16

func newCheckpointer(o *Options, c int) checkpointer {
	s := checkpointer{call: o.Checkpoint, every: o.CheckpointEvery, resume: o.Resume}
	if s.every == 0 {
		s.every = defaultCheckpointChunks * linearize.Tile(c)
	}
	return s
}

// active tells whether checkpoints are written or read.
func (s *checkpointer) active() bool { return s.call != nil || s.resume != nil }

// write calls Options.Checkpoint with c. Then it empties c, because the fit changes
// the numbers that c points to.
func (s *checkpointer) write(c *Checkpoint) error {
	if c == nil {
		return nil
	}
	err := s.call(c)
	*c = Checkpoint{}
	return err
}

// uninterrupted returns the context for work that changes sums in place. With
// checkpoints this work must not stop halfway, so that context has no deadline.
func (s *checkpointer) uninterrupted(ctx context.Context) context.Context {
	if s.call != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// eachChunk is basis.eachChunk for the examples from first on, which must begin a
// chunk. It writes checkpoints. state returns the checkpoint after the examples
// before next, or nil where a fit cannot go on from there.
func (s *checkpointer) eachChunk(ctx context.Context, b *basis, x linearize.Source, o *Options, stage string, first int, do func(p chunk) error, state func(next int) *Checkpoint) error {
	n := x.Len()
	if first == n {
		return nil
	}
	shifted := *o
	shifted.Progress = func(stage string, done, total int) { o.Progress(stage, first+done, first+total) }
	done, saved := first, first
	err := b.eachChunk(ctx, linearize.From(x, first), &shifted, stage, func(p chunk) error {
		p.first += first
		if err := do(p); err != nil {
			return err
		}
		done += p.x.Len()
		if s.call == nil || done < n && done-saved < s.every {
			return nil
		}
		saved = done
		return s.write(state(done))
	})
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || s.call == nil || done == saved {
		return err
	}
	if last := s.write(state(done)); last != nil {
		return errors.Join(err, last)
	}
	return err
}

// The binary form of a checkpoint is little-endian and holds: magic and version;
// the header, uint64; the checksums; the sums of the pass as Sums.MarshalBinary
// writes them; for a refit its scalars, the sums at the start of a step and its
// vectors; b and α of the examples that the pass for α has done; the CRC-32C of everything before.
const (
	checkpointMagic   = "fgpckpt\x00"
	checkpointVersion = 2 // with the pass for α since 2
	checkpointHead    = 8 // kind, C, rank, approximation, N, next, step, dual
	checkpointStart   = len(checkpointMagic) + 4 + 8*(checkpointHead+2*identityChecksums)
)

var (
	_ encoding.BinaryMarshaler   = (*Checkpoint)(nil)
	_ encoding.BinaryUnmarshaler = (*Checkpoint)(nil)
	_ io.WriterTo                = (*Checkpoint)(nil)
)

var errCheckpointSize = errors.New("sparse: the checkpoint has an impossible size")

// A checkpointLayout determines the sizes of the parts of a checkpoint.
type checkpointLayout struct {
	refit         bool
	kind          passKind
	fitc          bool
	c, rank       int
	n, next, step int
	dual          int // examples of the pass for α
}

func (c *Checkpoint) layout() checkpointLayout {
	l := checkpointLayout{refit: c.refit, fitc: c.spec.fitc, c: c.spec.c, rank: c.spec.rank, n: c.n, next: c.next}
	if c.refit {
		l.kind, l.step = c.newton.kind, c.newton.step
	}
	if c.dual != nil {
		l.dual = c.dual.next
	}
	return l
}

// head returns the header. Its kind is 0 for Fit, and 1 + passKind for Refit.
func (l checkpointLayout) head() [checkpointHead]uint64 {
	h := [checkpointHead]uint64{1: uint64(l.c), uint64(l.rank), 0, uint64(l.n), uint64(l.next), uint64(l.step), uint64(l.dual)}
	if l.refit {
		h[0] = 1 + uint64(l.kind)
	}
	if l.fitc {
		h[3] = 1
	}
	return h
}

// readLayout reads a header; ok is false where no checkpoint has such a header.
func readLayout(h [checkpointHead]uint64) (l checkpointLayout, ok bool) {
	for _, v := range h {
		if v > math.MaxInt32 {
			return l, false
		}
	}
	l = checkpointLayout{fitc: h[3] == 1, c: int(h[1]), rank: int(h[2]), n: int(h[4]), next: int(h[5]), step: int(h[6]), dual: int(h[7])}
	if h[0] > 0 {
		l.refit, l.kind = true, passKind(h[0]-1)
	}
	ok = l.kind <= atPoint && h[3] <= 1 && l.c > 0 && 0 < l.next && l.next <= l.n && (l.next == l.n || l.next%linearize.Tile(l.c) == 0) && (l.refit || l.step == 0)
	ok = ok && (l.dual == 0 || !l.refit && !l.fitc && l.next == l.n && l.dual <= l.n && (l.dual == l.n || l.dual%linearize.Tile(l.c) == 0))
	return l, ok
}

// vectors returns the lengths of refitState.vectors.
func (l checkpointLayout) vectors() []int64 {
	if !l.refit {
		return nil
	}
	all, passed := memory.Mul(int64(l.n), int64(l.c)), memory.Mul(int64(l.next), int64(l.c))
	known, marked, to := all, l.n, passed // lengths of m, of its checksums in examples, and of the point of the pass
	switch l.kind {
	case atTheta:
		known, marked = passed, l.next
	case atPoint:
		to = all
	}
	v := []int64{known, 2 * int64(chunkCount(marked, l.c)), 0, int64(l.rank), to, to, 0, 0, 0, 0, 0}
	if l.kind == stepping {
		v[7], v[8], v[9] = int64(l.rank), all, all
	}
	if l.fitc {
		v[6] = to
	}
	if l.fitc && l.kind == stepping {
		v[2], v[10] = passed, all
	}
	return v
}

// size returns the length of the binary form.
func (l checkpointLayout) size() int64 {
	size := memory.Add(int64(checkpointStart)+4, sumsSize(l.rank))
	if l.refit {
		size = memory.Add(size, 8*newtonNumbers)
	}
	if l.kind == stepping {
		size = memory.Add(size, sumsSize(l.rank))
	}
	for _, n := range l.vectors() {
		size = memory.Add(size, memory.Mul(8, n))
	}
	return memory.Add(size, memory.Mul(16, memory.Mul(int64(l.dual), int64(l.c))))
}

// WriteTo writes the checkpoint with a version and a CRC-32C. Unlike MarshalBinary,
// it does not hold all of it in memory. Other versions cannot read it.
func (c *Checkpoint) WriteTo(w io.Writer) (int64, error) {
	if c.sums == nil {
		return 0, errors.New("sparse: there is nothing in the checkpoint to write")
	}
	e := &checksumWriter{w: w}
	e.write([]byte(checkpointMagic))
	e.write(binary.LittleEndian.AppendUint32(nil, checkpointVersion))
	for _, v := range c.layout().head() {
		e.write(binary.LittleEndian.AppendUint64(nil, v))
	}
	for _, m := range c.checksums {
		e.floats(m.sum, m.scale)
	}
	e.sums(c.sums)
	if s := c.newton; s != nil {
		for _, v := range s.numbers() {
			e.floats(*v)
		}
		if s.kind == stepping {
			e.sums(s.sums)
		}
		for _, v := range s.vectors() {
			e.floats(*v...)
		}
	}
	if s := c.dual; s != nil {
		e.floats(s.pseudo...)
		e.floats(s.alpha...)
	}
	// Write the CRC-32C and find the number of bytes written.
	e.flush(0)
	e.buf = binary.LittleEndian.AppendUint32(e.buf, e.crc)
	e.flush(0)
	return e.n, e.err
}

// MarshalBinary returns what WriteTo writes.
func (c *Checkpoint) MarshalBinary() ([]byte, error) {
	var b bytes.Buffer
	if c.sums != nil {
		b.Grow(int(c.layout().size()))
	}
	_, err := c.WriteTo(&b)
	return b.Bytes(), err
}

// UnmarshalBinary reads a checkpoint that WriteTo or MarshalBinary wrote. Data that
// are cut short, damaged or of another version are an error, and c is then
// unchanged.
func (c *Checkpoint) UnmarshalBinary(data []byte) error {
	if len(data) < checkpointStart+4 || string(data[:len(checkpointMagic)]) != checkpointMagic {
		return errors.New("sparse: this is no checkpoint")
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return errors.New("sparse: the checkpoint is damaged: its checksum is wrong; use the one before it, or start anew")
	}
	body = body[len(checkpointMagic):]
	if v := binary.LittleEndian.Uint32(body); v != checkpointVersion {
		return fmt.Errorf("sparse: a checkpoint of version %d; this program reads version %d; start anew", v, checkpointVersion)
	}
	body = body[4:]
	var head [checkpointHead]uint64
	for i := range head {
		head[i], body = binary.LittleEndian.Uint64(body), body[8:]
	}
	l, ok := readLayout(head)
	if !ok || int64(len(data)) != l.size() {
		return errCheckpointSize
	}
	// Read what follows the header. The length of body is already checked.
	t := &Checkpoint{fitIdentity: fitIdentity{n: l.n, refit: l.refit}, next: l.next}
	r := floatReader(body)
	for i := range t.checksums {
		t.checksums[i] = checksum{r.next(), r.next()}
	}
	var err error
	if t.sums, err = l.sums(&r); err != nil {
		return err
	}
	t.spec = t.sums.spec
	if l.refit {
		if t.newton, err = l.newton(&r); err != nil {
			return err
		}
	}
	if l.dual > 0 {
		t.dual = &dualState{next: l.dual, pseudo: r.many(l.dual * l.c), alpha: r.many(l.dual * l.c)}
	}
	if !t.consistent(l) {
		return errCheckpointSize
	}
	*c = *t
	return nil
}

func (l checkpointLayout) sums(r *floatReader) (*Sums, error) {
	size, s := sumsSize(l.rank), new(Sums)
	data := (*r)[:size]
	*r = (*r)[size:]
	return s, s.UnmarshalBinary(data)
}

func (l checkpointLayout) newton(r *floatReader) (*refitState, error) {
	s := &refitState{kind: l.kind, step: l.step}
	for _, v := range s.numbers() {
		*v = r.next()
	}
	if l.kind == stepping {
		var err error
		if s.sums, err = l.sums(r); err != nil {
			return nil, err
		}
	}
	vectors := s.vectors()
	for i, n := range l.vectors() {
		*vectors[i] = r.many(int(n))
	}
	return s, nil
}

// consistent tells whether the sums are those of the header.
func (c *Checkpoint) consistent(l checkpointLayout) bool {
	o := c.spec
	if o.c != l.c || o.rank != l.rank || o.fitc != l.fitc {
		return false
	}
	if l.kind == stepping {
		// A step adds no sums after an example without finite sites.
		s := c.newton.sums
		return c.sums.n <= c.next && s.n == c.n && s.spec == o
	}
	return c.sums.n == c.next
}
