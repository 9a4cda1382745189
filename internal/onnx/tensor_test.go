package onnx

import (
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// tensorFile is a model whose one initializer is the given message.
func tensorFile(fields ...[]byte) []byte {
	return bytesField(7, bytesField(5, msg(fields...)))
}

func decodeOne(b []byte) (*Tensor, error) {
	m, err := Decode(b)
	if err != nil {
		return nil, err
	}
	return m.Graph.Initializers[0], nil
}

func le16(v uint16) []byte { return binary.LittleEndian.AppendUint16(nil, v) }
func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func le64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
func f32(v float32) uint32 { return math.Float32bits(v) }
func f64(v float64) uint64 { return math.Float64bits(v) }
func dims(d ...int64) (b []byte) {
	return appendInts(nil, tensorDims, d)
}
func typed(d DataType) []byte { return intField(tensorType, int64(d)) }

// Every storage form of onnx.proto for every type, by hand.
func TestTensorStorage(t *testing.T) {
	third := float64(float32(1) / 3)
	raw := func(vs ...[]byte) []byte { return bytesField(tensorRaw, msg(vs...)) }
	for _, c := range []struct {
		name    string
		d       DataType
		storage []byte
		floats  []float64
		ints    []int64
		strings [][]byte
	}{
		{name: "float raw", d: Float, storage: raw(le32(f32(1.0/3)), le32(f32(-2))), floats: []float64{third, -2}},
		{name: "float packed", d: Float, storage: packedField(tensorFloats, le32(f32(1.0/3)), le32(f32(-2))), floats: []float64{third, -2}},
		{name: "float single", d: Float, storage: msg(fixed32Field(tensorFloats, f32(1.0/3)), fixed32Field(tensorFloats, f32(-2))), floats: []float64{third, -2}},
		{name: "float mixed", d: Float, storage: msg(fixed32Field(tensorFloats, f32(1.0/3)), packedField(tensorFloats, le32(f32(-2)))), floats: []float64{third, -2}},
		{name: "float with empty raw", d: Float, storage: msg(packedField(tensorFloats, le32(f32(5)), le32(f32(-2))), raw()), floats: []float64{5, -2}},
		{name: "double raw", d: Double, storage: raw(le64(f64(math.Pi)), le64(f64(-1e-300))), floats: []float64{math.Pi, -1e-300}},
		{name: "double packed", d: Double, storage: packedField(tensorDoubles, le64(f64(math.Pi)), le64(f64(0))), floats: []float64{math.Pi, 0}},
		{name: "double single", d: Double, storage: msg(fixed64Field(tensorDoubles, f64(math.Pi)), fixed64Field(tensorDoubles, 0)), floats: []float64{math.Pi, 0}},
		{name: "float16 raw", d: Float16, storage: raw(le16(0x3555), le16(0xc000)), floats: []float64{0.333251953125, -2}},
		{name: "float16 int32", d: Float16, storage: packedField(tensorInt32s, varint(0x3555), varint(0xc000)), floats: []float64{0.333251953125, -2}},
		{name: "bfloat16 raw", d: BFloat16, storage: raw(le16(0x4049), le16(0xff80)), floats: []float64{3.140625, math.Inf(-1)}},
		{name: "bfloat16 int32", d: BFloat16, storage: msg(intField(tensorInt32s, 0x4049), intField(tensorInt32s, 0xff80)), floats: []float64{3.140625, math.Inf(-1)}},
		{name: "int64 raw", d: Int64, storage: raw(le64(math.MaxInt64), le64(1<<63)), ints: []int64{math.MaxInt64, math.MinInt64}},
		{name: "int64 packed", d: Int64, storage: packedField(tensorInt64s, varint(-1), varint(1<<40)), ints: []int64{-1, 1 << 40}},
		{name: "int64 single", d: Int64, storage: msg(intField(tensorInt64s, -1), intField(tensorInt64s, 1<<40)), ints: []int64{-1, 1 << 40}},
		{name: "int32 raw", d: Int32, storage: raw(le32(1<<32-1), le32(7)), ints: []int64{-1, 7}},
		{name: "int32 packed", d: Int32, storage: packedField(tensorInt32s, varint(-1), varint(math.MaxInt32)), ints: []int64{-1, math.MaxInt32}},
		{name: "int32 from 5 bytes", d: Int32, storage: packedField(tensorInt32s, varint(1<<32-1), varint(7)), ints: []int64{-1, 7}},
		{name: "int16 raw", d: Int16, storage: raw(le16(1<<15), le16(7)), ints: []int64{-1 << 15, 7}},
		{name: "int16 int32", d: Int16, storage: packedField(tensorInt32s, varint(-1<<15), varint(7)), ints: []int64{-1 << 15, 7}},
		{name: "int8 raw", d: Int8, storage: raw([]byte{0x80, 0x7f}), ints: []int64{-128, 127}},
		{name: "int8 int32", d: Int8, storage: packedField(tensorInt32s, varint(-128), varint(127)), ints: []int64{-128, 127}},
		{name: "uint8 raw", d: Uint8, storage: raw([]byte{0x80, 0xff}), ints: []int64{128, 255}},
		{name: "uint8 int32", d: Uint8, storage: packedField(tensorInt32s, varint(128), varint(255)), ints: []int64{128, 255}},
		{name: "uint16 raw", d: Uint16, storage: raw(le16(1<<16-1), le16(1)), ints: []int64{1<<16 - 1, 1}},
		{name: "uint16 int32", d: Uint16, storage: packedField(tensorInt32s, varint(1<<16-1), varint(1)), ints: []int64{1<<16 - 1, 1}},
		{name: "uint32 raw", d: Uint32, storage: raw(le32(1<<32-1), le32(1)), ints: []int64{1<<32 - 1, 1}},
		{name: "uint32 uint64", d: Uint32, storage: packedField(tensorUint64s, varint(1<<32-1), varint(1)), ints: []int64{1<<32 - 1, 1}},
		{name: "uint64 raw", d: Uint64, storage: raw(le64(math.MaxInt64), le64(1)), ints: []int64{math.MaxInt64, 1}},
		{name: "uint64 single", d: Uint64, storage: msg(intField(tensorUint64s, 3), intField(tensorUint64s, 1)), ints: []int64{3, 1}},
		{name: "bool raw", d: Bool, storage: raw([]byte{1, 0}), ints: []int64{1, 0}},
		{name: "bool int32", d: Bool, storage: packedField(tensorInt32s, varint(1), varint(0)), ints: []int64{1, 0}},
		{name: "bool of any nonzero", d: Bool, storage: packedField(tensorInt32s, varint(-1), varint(2)), ints: []int64{1, 1}},
		{name: "string", d: String, storage: msg(stringField(tensorStrings, "a b"), stringField(tensorStrings, "")), strings: [][]byte{[]byte("a b"), nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := &Tensor{Name: "w", Dims: []int64{2, 1}, Type: c.d, Floats: c.floats, Ints: c.ints, Strings: c.strings}
			for _, b := range [][]byte{
				tensorFile(dims(2, 1), typed(c.d), stringField(tensorName, "w"), c.storage),
				tensorFile(c.storage, stringField(tensorName, "w"), packedField(tensorDims, varint(2), varint(1)), typed(c.d)),
			} {
				got := testref.Must(decodeOne(b))(t)
				require.Equal(t, want, got)
				require.Equal(t, 2, got.Len())
			}
			m := &Model{Graph: &Graph{Initializers: []*Tensor{want}}}
			b := testref.Must(m.Encode())(t)
			again := testref.Must(Decode(b))(t)
			require.Equal(t, m, again)
		})
	}
}

func TestScalarAndEmptyTensors(t *testing.T) {
	got := testref.Must(decodeOne(tensorFile(typed(Int64), intField(tensorInt64s, 4))))(t)
	require.Equal(t, &Tensor{Type: Int64, Ints: []int64{4}}, got)

	// A dimension of zero makes the others irrelevant, however large.
	got = testref.Must(decodeOne(tensorFile(dims(1<<62, 1<<62, 0), typed(Float))))(t)
	require.Equal(t, 0, got.Len())
	require.NoError(t, testref.Err((&Model{Graph: &Graph{Initializers: []*Tensor{got}}}).Encode()))
}

func TestBadTensors(t *testing.T) {
	values := packedField(tensorFloats, le32(1), le32(2))
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"too few", msg(dims(3), typed(Float), values), "shape [3] has 3 elements, but the file holds 2"},
		{"too many", msg(dims(1), typed(Float), values), "shape [1] has 1 elements, but the file holds 2"},
		{"a scalar of two", msg(typed(Float), values), "shape [] has 1 elements, but the file holds 2"},
		{"none", msg(dims(2), typed(Float)), "shape [2] has 2 elements, but the file holds 0"},
		{"2^60", msg(dims(1<<30, 1<<30), typed(Float), values), "has 1152921504606846976 elements, but the file holds 2"},
		{"product overflows", msg(dims(1<<32, 1<<32), typed(Float), values), "more than 2^63 elements"},
		{"product wraps to 2", msg(dims(1<<63-1, 1<<63-1, 2), typed(Float), values), "more than 2^63 elements"},
		{"negative", msg(dims(-1, -2), typed(Float), values), "dimension 0 is -1"},
		{"negative beside zero", msg(dims(0, -2), typed(Float)), "dimension 1 is -2"},
		{"many dimensions", msg(dims(make20()...), typed(Float), values), "[1 1 1 1 1 1 1 1]… (20 dimensions)"},
		{"no type", msg(dims(2), values), "elements of undefined are not supported"},
		{"complex", msg(dims(1), typed(14), values), "elements of complex64 are not supported"},
		{"float8", msg(dims(1), typed(17), bytesField(tensorRaw, []byte{1})), "elements of float8e4m3fn are not supported"},
		{"unknown type", msg(dims(1), typed(99), bytesField(tensorRaw, []byte{1})), "elements of type 99"},
		{"wrong field", msg(dims(2), typed(Double), values), "elements of float64 in data field 4, want field 10 or raw data"},
		{"two forms", msg(dims(2), typed(Float), values, bytesField(tensorRaw, make([]byte, 8))), "both raw data and data field 4"},
		{"ragged raw", msg(dims(2), typed(Float), bytesField(tensorRaw, make([]byte, 7))), "7 bytes of raw data do not divide into elements of float32"},
		{"ragged packed", msg(dims(2), typed(Float), bytesField(tensorFloats, make([]byte, 7))), "7 bytes of packed 4-byte values"},
		{"varints cut short", msg(dims(2), typed(Int64), bytesField(tensorInt64s, []byte{1, 2, 0x80})), "the bytes end within a value"},
		{"strings in raw", msg(dims(1), typed(String), bytesField(tensorRaw, []byte("a"))), "strings in raw data"},
		{"int8 of 128", msg(dims(1), typed(Int8), intField(tensorInt32s, 128)), "element 0 of int8 is outside [-128, 127]"},
		{"uint8 of -1", msg(dims(1), typed(Uint8), intField(tensorInt32s, -1)), "element 0 of uint8 is outside [0, 255]"},
		{"uint64 of 2^63", msg(dims(1), typed(Uint64), intField(tensorUint64s, math.MinInt64)), "element 0 of uint64 is outside [0, 9223372036854775807]"},
		{"raw uint64 of 2^63", msg(dims(1), typed(Uint64), bytesField(tensorRaw, le64(1<<63))), "element 0 of uint64 is outside"},
		{"float16 of 17 bits", msg(dims(1), typed(Float16), intField(tensorInt32s, 1<<16)), "more than the 16 bits of float16"},
		{"segment", msg(dims(1), typed(Float), bytesField(tensorSegment, nil)), "save it in one piece"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeOne(tensorFile(c.b, stringField(tensorName, "fc.weight")))
			require.ErrorContains(t, err, c.want)
			require.True(t, strings.HasPrefix(err.Error(), `onnx: graph, initializer 0 "fc.weight": `), err.Error())
		})
	}
	// Data stated to be inside the file is fine.
	require.NoError(t, testref.Err(decodeOne(tensorFile(dims(2), typed(Float), values, intField(tensorLocation, 0)))))
}

func make20() []int64 {
	d := make([]int64, 20)
	for i := range d {
		d[i] = 1
	}
	d[19] = 3
	return d
}

// A file of a few bytes that declares 2^60 or 2^40 elements does not make the
// reader allocate memory for them.
func TestClaimedSizeIsNotAllocated(t *testing.T) {
	for _, claim := range [][]byte{dims(1 << 60), dims(1 << 40), dims(1<<20, 1<<20)} {
		b := tensorFile(claim, typed(Float), bytesField(tensorRaw, make([]byte, 64)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(b)
		runtime.ReadMemStats(&after)
		require.Error(t, err)
		// 1 MiB leaves room for what the test binary itself allocates meanwhile.
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	}
}

func TestEncodeChecksTensors(t *testing.T) {
	for _, c := range []struct {
		t    Tensor
		want string
	}{
		{Tensor{Dims: []int64{3}, Type: Float, Floats: []float64{1, 2}}, "shape [3] has 3 elements, but there are 2 of float32"},
		{Tensor{Dims: []int64{2}, Type: Float, Ints: []int64{1, 2}}, "shape [2] has 2 elements, but there are 0 of float32"},
		{Tensor{Dims: []int64{1}, Type: Int64, Ints: []int64{1}, Floats: []float64{1}}, "elements of another type than int64"},
		{Tensor{Dims: []int64{-1}, Type: Float}, "dimension 0 is -1"},
		{Tensor{Dims: []int64{1}, Floats: []float64{1}}, "elements of undefined are not supported"},
		{Tensor{Dims: []int64{2}, Type: Float, Floats: []float64{1, 1e39}}, "element 1 is 1e+39, beyond the range of float32"},
		{Tensor{Dims: []int64{1}, Type: Float16, Floats: []float64{65520}}, "element 0 is 65520, beyond the range of float16"},
		{Tensor{Dims: []int64{1}, Type: Int8, Ints: []int64{-129}}, "element 0 is -129, outside the range of int8"},
		{Tensor{Dims: []int64{1}, Type: Bool, Ints: []int64{2}}, "element 0 is 2, outside the range of bool"},
	} {
		c.t.Name = "w"
		m := &Model{Graph: &Graph{Initializers: []*Tensor{&c.t}}}
		_, err := m.Encode()
		require.ErrorContains(t, err, `onnx: graph, initializer 0 "w": `)
		require.ErrorContains(t, err, c.want)

		m = &Model{Graph: &Graph{Nodes: []*Node{{OpType: "Constant", Attributes: []*Attribute{{Name: "value", Type: AttrTensor, T: &c.t}}}}}}
		_, err = m.Encode()
		require.ErrorContains(t, err, `onnx: graph, node 0 (Constant), attribute 0 "value", tensor "w": `)
		require.ErrorContains(t, err, c.want)
	}
}

// Floats are written to the nearest number of the tensor's type; infinities
// and NaN stay what they are.
func TestEncodeRounds(t *testing.T) {
	in := []float64{0.1, math.Inf(1), math.NaN(), math.Copysign(0, -1)}
	for d, want := range map[DataType]float64{
		Float: float64(float32(0.1)), Double: 0.1, Float16: 0.0999755859375, BFloat16: 0.10009765625,
	} {
		m := &Model{Graph: &Graph{Initializers: []*Tensor{{Dims: []int64{4}, Type: d, Floats: in}}}}
		b := testref.Must(m.Encode())(t)
		got := testref.Must(decodeOne(b))(t)
		require.Equal(t, want, got.Floats[0], d)
		require.Equal(t, math.Inf(1), got.Floats[1])
		require.True(t, math.IsNaN(got.Floats[2]))
		require.True(t, math.Signbit(got.Floats[3]))
	}
}

// Values from IEEE 754-2008 binary16 and from bfloat16 as a cut float32.
func TestHalfKnownValues(t *testing.T) {
	for _, c := range []struct {
		f    format
		bits uint16
		v    float64
	}{
		{binary16, 0x3c00, 1},
		{binary16, 0xc000, -2},
		{binary16, 0x7bff, 65504},
		{binary16, 0x0400, 0x1p-14}, // smallest normal
		{binary16, 0x03ff, 0x1p-14 - 0x1p-24},
		{binary16, 0x0001, 0x1p-24}, // smallest subnormal
		{binary16, 0x3555, 0.333251953125},
		{binary16, 0x7c00, math.Inf(1)},
		{binary16, 0xfc00, math.Inf(-1)},
		{binary16, 0x0000, 0},
		{bfloat16, 0x3f80, 1},
		{bfloat16, 0x4049, 3.140625},
		{bfloat16, 0x7f7f, 0x1.fep127},
		{bfloat16, 0x0001, 0x1p-133},
		{bfloat16, 0xff80, math.Inf(-1)},
	} {
		require.Equal(t, c.v, c.f.widen(c.bits), "%#x", c.bits)
		require.Equal(t, c.bits, c.f.narrow(c.v), "%g", c.v)
	}
}

// Every bit pattern survives widening and narrowing; the NaNs become one.
func TestHalfRoundTrip(t *testing.T) {
	for _, f := range []format{binary16, bfloat16} {
		for i := range 1 << 16 {
			bits := uint16(i)
			v := f.widen(bits)
			if math.IsNaN(v) {
				require.True(t, math.IsNaN(f.widen(f.narrow(v))))
				continue
			}
			require.Equal(t, bits, f.narrow(v), "%#x is %g", bits, v)
		}
	}
}

// bfloat16 is the upper half of a float32.
func TestBFloat16IsHalfAFloat32(t *testing.T) {
	for i := range 1 << 16 {
		want := float64(math.Float32frombits(uint32(i) << 16))
		got := bfloat16.widen(uint16(i))
		if math.IsNaN(want) {
			require.True(t, math.IsNaN(got))
			continue
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(got), "%#x", i)
	}
}

// Narrowing rounds to the nearest number, with ties to even. The test takes the
// middle of any two neighbours a < b and the numbers just beside it.
func TestHalfNarrowRounds(t *testing.T) {
	for _, f := range []format{binary16, bfloat16} {
		infinity := uint16((1<<f.exp - 1) << f.man)
		for lo := uint16(0); lo < infinity-1; lo++ {
			a, b := f.widen(lo), f.widen(lo+1)
			middle := (a + b) / 2 // exact: one bit more than a and b have
			even := lo + lo&1
			require.Equal(t, even, f.narrow(middle), "middle above %g", a)
			require.Equal(t, lo, f.narrow(math.Nextafter(middle, a)), "below the middle above %g", a)
			require.Equal(t, lo+1, f.narrow(math.Nextafter(middle, b)), "above the middle above %g", a)
			require.Equal(t, even|1<<15, f.narrow(-middle), "middle below %g", -a)
		}
		largest, next := f.widen(infinity-1), 2*f.widen(infinity-1)-f.widen(infinity-2)
		require.Equal(t, infinity-1, f.narrow(math.Nextafter((largest+next)/2, 0)))
		require.Equal(t, infinity, f.narrow((largest+next)/2))
		require.Equal(t, infinity, f.narrow(math.MaxFloat64))
		require.Equal(t, uint16(0), f.narrow(math.SmallestNonzeroFloat64))
		require.Equal(t, uint16(1<<15), f.narrow(math.Copysign(0, -1)))
	}
}

// Each type is a float, an integer or a string, and its number is the one of
// onnx.proto.
func TestDataTypes(t *testing.T) {
	for d, name := range map[DataType]string{
		1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string",
		9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
	} {
		require.Equal(t, name, d.String())
		kinds := 0
		for _, is := range []bool{d.IsFloat(), d.IsInt(), d == String} {
			if is {
				kinds++
			}
		}
		require.Equal(t, 1, kinds, name)
	}
	for _, d := range []DataType{-1, 0, 14, 17, 99} {
		require.False(t, d.IsFloat() || d.IsInt(), d)
	}
	require.Equal(t, "complex128", DataType(15).String())
	require.Equal(t, "type -1", DataType(-1).String())
}

func TestAttrTypeString(t *testing.T) {
	require.Equal(t, "sparse tensor", AttrSparseTensor.String())
	require.Equal(t, "types", AttrTypeProtos.String())
	require.Equal(t, "attribute type -1", AttrType(-1).String())
	require.Equal(t, "attribute type 15", AttrType(15).String())
}
