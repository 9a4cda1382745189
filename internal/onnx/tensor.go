package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tensor is an array of constants in row-major order.
type Tensor struct {
	Name    string
	Dims    []int64 // none: a scalar
	Type    DataType
	Floats  []float64 // the elements of a floating-point type, exact
	Ints    []int64   // the elements of an integer type; a boolean is 0 or 1
	Strings [][]byte  // the elements of type String
	// External says where the elements are if another file holds them, and then
	// there are none here.
	External *External
	Unknown  []byte // other fields (documentation), as bytes of the file
}

// Len returns the number of elements held.
func (t *Tensor) Len() int {
	switch {
	case t.Type.IsFloat():
		return len(t.Floats)
	case t.Type == String:
		return len(t.Strings)
	}
	return len(t.Ints)
}

// label names a tensor that is not in a list.
func (t *Tensor) label() string {
	if t.Name == "" {
		return "tensor"
	}
	return "tensor " + quote(t.Name)
}

// Field numbers of TensorProto.
const (
	tensorDims     number = 1
	tensorType     number = 2
	tensorSegment  number = 3
	tensorFloats   number = 4
	tensorInt32s   number = 5
	tensorStrings  number = 6
	tensorInt64s   number = 7
	tensorName     number = 8
	tensorRaw      number = 9
	tensorDoubles  number = 10
	tensorUint64s  number = 11
	tensorExternal number = 13
	tensorLocation number = 14
)

// storage says where in the file a tensor's elements are.
type storage struct {
	raw       []byte
	count     [tensorUint64s + 1]int // elements in each typed data field
	external  []Entry                // what it says of another file
	entries   []byte                 // the same as bytes of this one
	elsewhere bool                   // the elements are in that file
	segment   bool
}

// schema lists the fields of TensorProto that hold no elements.
func (t *Tensor) schema() schema {
	return schema{integers(tensorDims, &t.Dims), integer(tensorType, &t.Type, true), text(tensorName, &t.Name), rest(&t.Unknown)}
}

// decode reads the message twice: first it counts the elements and compares them with the shape, then it reads
// them into memory of that size. The tensor has its name even after an error, for the message.
func (t *Tensor) decode(m message) error {
	s, plain := new(storage), t.schema()
	entries := records(tensorExternal, "external data", &s.external, func(e *Entry) record { return e })
	err := m.each(func(f *field) error {
		// Decode all fields except the elements, which it counts.
		switch f.num {
		case tensorRaw:
			s.raw = f.b
			return f.want(protowire.BytesType)
		case tensorFloats, tensorInt32s, tensorStrings, tensorInt64s, tensorDoubles, tensorUint64s:
			n, err := f.scalars(wireType(f.num))
			s.count[f.num] += n
			return err
		case tensorSegment:
			s.segment = true
		case tensorExternal:
			if err := f.keep(&s.entries); err != nil {
				return err
			}
			return entries.decode(f)
		case tensorLocation:
			s.elsewhere = f.u == 1
			if f.u > 1 {
				return faultf(f.off, "its data location %d is unknown", f.u)
			}
			return f.want(protowire.VarintType)
		default:
			return plain.field(f)
		}
		return nil
	})
	if err != nil {
		// The fault may come before the name, which the message needs.
		_ = m.each(func(f *field) error {
			if f.num == tensorName {
				t.Name = string(f.b)
			}
			return nil
		})
		return err
	}
	if s.elsewhere {
		return t.setExternal(s, m.off)
	}
	t.Unknown = append(t.Unknown, s.entries...)
	n, err := t.count(s, m.off)
	if err != nil || n == 0 {
		return err
	}
	return t.load(m, s, n)
}

// wireType returns the type of a single element in a typed data field.
func wireType(num number) protowire.Type {
	switch num {
	case tensorFloats:
		return protowire.Fixed32Type
	case tensorDoubles:
		return protowire.Fixed64Type
	case tensorStrings:
		return protowire.BytesType
	}
	return protowire.VarintType
}

// count compares the shape with the stored elements and returns their number. They must all be in
// one field, that of the tensor's type or raw_data.
func (t *Tensor) count(s *storage, off int) (int, error) {
	if s.segment {
		return 0, unsupportedf(off, "it is stored in segments; save it in one piece")
	}
	want, err := elements(t.Dims)
	if err != nil {
		return 0, faultf(off, "%v", err)
	}
	info, ok := types[t.Type]
	if !ok {
		return 0, unsupportedf(off, "elements of %s are not supported; save the model in float32 or float64", t.Type)
	}
	for num, n := range s.count {
		if n > 0 && number(num) != info.field {
			return 0, faultf(off, "elements of %s in data field %d, want field %d or raw data", t.Type, num, info.field)
		}
	}
	have := s.count[info.field]
	if len(s.raw) > 0 {
		switch {
		case have > 0:
			return 0, faultf(off, "both raw data and data field %d hold elements", info.field)
		case t.Type == String:
			return 0, faultf(off, "strings in raw data")
		case len(s.raw)%info.size != 0:
			return 0, faultf(off, "%d bytes of raw data do not divide into elements of %s", len(s.raw), t.Type)
		}
		have = len(s.raw) / info.size
	}
	if int64(have) != want {
		return 0, faultf(off, "shape %s has %d elements, but the file holds %d", shape(t.Dims), want, have)
	}
	return have, nil
}

// elements returns the product of dims.
func elements(dims []int64) (int64, error) {
	for i, d := range dims {
		if d < 0 {
			return 0, fmt.Errorf("dimension %d is %d", i, d)
		}
	}
	if slices.Contains(dims, 0) {
		return 0, nil
	}
	n := int64(1)
	for _, d := range dims {
		if n > math.MaxInt64/d {
			return 0, fmt.Errorf("shape %s has more than 2^63 elements", shape(dims))
		}
		n *= d
	}
	return n, nil
}

// shape formats dims for an error, at most the first eight.
func shape(dims []int64) string {
	const most = 8
	if len(dims) <= most {
		return fmt.Sprint(dims)
	}
	return fmt.Sprintf("%v… (%d dimensions)", dims[:most], len(dims))
}

// load fills the tensor with its n elements.
func (t *Tensor) load(m message, s *storage, n int) error {
	switch {
	case t.Type.IsFloat():
		t.Floats = make([]float64, 0, n)
	case t.Type.IsInt():
		t.Ints = make([]int64, 0, n)
	default:
		t.Strings = make([][]byte, 0, n)
	}
	if len(s.raw) > 0 {
		return t.loadRaw(s.raw)
	}
	info := types[t.Type]
	return m.each(func(f *field) error {
		switch {
		case f.num != info.field:
			return nil
		case t.Type == String:
			t.Strings = append(t.Strings, f.copyBytes())
			return nil
		}
		return f.eachScalar(wireType(f.num), func(u uint64) error {
			if f.num == tensorInt32s {
				u = uint64(int32(u)) // sign-extend the low 32 bits
			}
			return t.add(u, f.val)
		})
	})
}

// loadRaw appends little-endian elements of fixed width.
func (t *Tensor) loadRaw(raw []byte) error {
	info := types[t.Type]
	for ; len(raw) > 0; raw = raw[info.size:] {
		var u uint64
		switch info.size {
		case 1:
			u = uint64(raw[0])
		case 2:
			u = uint64(binary.LittleEndian.Uint16(raw))
		case 4:
			u = uint64(binary.LittleEndian.Uint32(raw))
		default:
			u = binary.LittleEndian.Uint64(raw)
		}
		if info.min < 0 {
			unused := 64 - 8*info.size
			u = uint64(int64(u<<unused) >> unused)
		}
		if err := t.add(u, -1); err != nil {
			return err
		}
	}
	return nil
}

// add appends an element; u holds the bits of a float or a sign-extended
// integer.
func (t *Tensor) add(u uint64, off int) error {
	switch t.Type {
	case Float, Double:
		t.Floats = append(t.Floats, t.Type.float(u))
		return nil
	case Float16, BFloat16:
		if u > math.MaxUint16 {
			return faultf(off, "element %d has more than the 16 bits of %s", len(t.Floats), t.Type)
		}
		t.Floats = append(t.Floats, t.Type.float(u))
		return nil
	case Bool:
		u = min(u, 1)
	}
	v, info := int64(u), types[t.Type]
	if v < info.min || v > info.max {
		return faultf(off, "element %d of %s is outside [%d, %d]", len(t.Ints), t.Type, info.min, info.max)
	}
	t.Ints = append(t.Ints, v)
	return nil
}

// float returns the number with bits u of a floating-point type.
func (d DataType) float(u uint64) float64 {
	switch d {
	case Float:
		return float64(math.Float32frombits(uint32(u)))
	case Float16:
		return binary16.widen(uint16(u))
	case BFloat16:
		return bfloat16.widen(uint16(u))
	}
	return math.Float64frombits(u)
}

// bits returns the bits of the number of a floating-point type nearest to v.
func (d DataType) bits(v float64) uint64 {
	switch d {
	case Float:
		return uint64(math.Float32bits(float32(v)))
	case Float16:
		return uint64(binary16.narrow(v))
	case BFloat16:
		return uint64(bfloat16.narrow(v))
	}
	return math.Float64bits(v)
}

func appendLittleEndian(b []byte, u uint64, size int) []byte {
	var full [8]byte
	binary.LittleEndian.PutUint64(full[:], u)
	return append(b, full[:size]...)
}

// append appends the tensor's message, its elements as raw data.
func (t *Tensor) append(b []byte) ([]byte, error) {
	// Type, shape and number of elements must fit one another.
	info, ok := types[t.Type]
	if !ok {
		return nil, invalidf("elements of %s are not supported", t.Type)
	}
	want, err := elements(t.Dims)
	if t.External != nil {
		want = 0
	}
	switch have := t.Len(); {
	case err != nil:
		return nil, invalidf("%v", err)
	case int64(have) != want:
		return nil, invalidf("shape %s has %d elements, but there are %d of %s", shape(t.Dims), want, have, t.Type)
	case have != len(t.Floats)+len(t.Ints)+len(t.Strings):
		return nil, invalidf("it holds elements of another type than %s", t.Type)
	}
	b = appendInts(b, tensorDims, t.Dims)
	b = appendInt(b, tensorType, int64(t.Type))
	for _, s := range t.Strings {
		b = appendBytes(b, tensorStrings, s)
	}
	b = appendString(b, tensorName, t.Name)
	if t.External != nil {
		return append(t.External.append(b), t.Unknown...), nil
	}
	if t.Type != String && t.Len() > 0 {
		b = protowire.AppendTag(b, tensorRaw, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(t.Len())*uint64(info.size))
		b = slices.Grow(b, t.Len()*info.size)
	}
	for i, v := range t.Floats {
		u := t.Type.bits(v)
		if math.IsInf(t.Type.float(u), 0) && !math.IsInf(v, 0) {
			return nil, invalidf("element %d is %g, beyond the range of %s", i, v, t.Type)
		}
		b = appendLittleEndian(b, u, info.size)
	}
	for i, v := range t.Ints {
		if v < info.min || v > info.max {
			return nil, invalidf("element %d is %d, outside the range of %s", i, v, t.Type)
		}
		b = appendLittleEndian(b, uint64(v), info.size)
	}
	return append(b, t.Unknown...), nil
}
