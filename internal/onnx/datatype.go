package onnx

import (
	"fmt"
	"math"
)

// DataType is the element type of a tensor, numbered as in onnx.proto.
type DataType int32

// The element types that this package reads and writes.
const (
	Float    DataType = 1
	Uint8    DataType = 2
	Int8     DataType = 3
	Uint16   DataType = 4
	Int16    DataType = 5
	Int32    DataType = 6
	Int64    DataType = 7
	String   DataType = 8
	Bool     DataType = 9
	Float16  DataType = 10
	Double   DataType = 11
	Uint32   DataType = 12
	Uint64   DataType = 13
	BFloat16 DataType = 16
)

// typeInfo says how the format stores elements of a type.
type typeInfo struct {
	name  string
	size  int    // bytes of one element in raw_data
	field number // the typed data field of TensorProto that may hold it
	// The range of integers, limited to that of int64.
	min, max int64
}

var types = map[DataType]typeInfo{
	Float:    {name: "float32", size: 4, field: tensorFloats},
	Uint8:    {name: "uint8", size: 1, field: tensorInt32s, max: math.MaxUint8},
	Int8:     {name: "int8", size: 1, field: tensorInt32s, min: math.MinInt8, max: math.MaxInt8},
	Uint16:   {name: "uint16", size: 2, field: tensorInt32s, max: math.MaxUint16},
	Int16:    {name: "int16", size: 2, field: tensorInt32s, min: math.MinInt16, max: math.MaxInt16},
	Int32:    {name: "int32", size: 4, field: tensorInt32s, min: math.MinInt32, max: math.MaxInt32},
	Int64:    {name: "int64", size: 8, field: tensorInt64s, min: math.MinInt64, max: math.MaxInt64},
	String:   {name: "string", field: tensorStrings},
	Bool:     {name: "bool", size: 1, field: tensorInt32s, max: 1},
	Float16:  {name: "float16", size: 2, field: tensorInt32s},
	Double:   {name: "float64", size: 8, field: tensorDoubles},
	Uint32:   {name: "uint32", size: 4, field: tensorUint64s, max: math.MaxUint32},
	Uint64:   {name: "uint64", size: 8, field: tensorUint64s, max: math.MaxInt64},
	BFloat16: {name: "bfloat16", size: 2, field: tensorInt32s},
}

// unsupported names the other types of the format for error messages.
var unsupported = map[DataType]string{
	0: "undefined", 14: "complex64", 15: "complex128", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
	19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1",
	24: "float8e8m0", 25: "uint2", 26: "int2",
}

// String names the type in error messages.
func (d DataType) String() string {
	if info, ok := types[d]; ok {
		return info.name
	}
	if name, ok := unsupported[d]; ok {
		return name
	}
	return fmt.Sprintf("type %d", int32(d))
}

// Size returns the bytes that one element takes in raw_data, 0 for strings and types that
// this package cannot read.
func (d DataType) Size() int { return types[d].size }

// IsFloat reports whether elements are floating-point numbers, held in
// Tensor.Floats.
func (d DataType) IsFloat() bool {
	switch d {
	case Float, Float16, Double, BFloat16:
		return true
	}
	return false
}

// IsInt reports whether elements are integers or booleans, held in
// Tensor.Ints.
func (d DataType) IsInt() bool {
	_, ok := types[d]
	return ok && d != String && !d.IsFloat()
}

// Nearest returns the number of a floating-point type nearest to v.
func (d DataType) Nearest(v float64) float64 { return d.float(d.bits(v)) }

// Range returns the least and the largest integer of the type, limited to the whole
// numbers that a float64 holds exactly, ±2^53.
func (d DataType) Range() (lo, hi int64) {
	const exact = 1 << 53
	return max(types[d].min, -exact), min(types[d].max, exact)
}

// AttrType is the type of an attribute, numbered as in onnx.proto.
type AttrType int32

// The attribute types. Values of types for which Attribute has no field are in
// Attribute.Raw.
const (
	AttrUndefined     AttrType = 0
	AttrFloat         AttrType = 1
	AttrInt           AttrType = 2
	AttrString        AttrType = 3
	AttrTensor        AttrType = 4
	AttrGraph         AttrType = 5
	AttrFloats        AttrType = 6
	AttrInts          AttrType = 7
	AttrStrings       AttrType = 8
	AttrTensors       AttrType = 9
	AttrGraphs        AttrType = 10
	AttrSparseTensor  AttrType = 11
	AttrSparseTensors AttrType = 12
	AttrTypeProto     AttrType = 13
	AttrTypeProtos    AttrType = 14
)

var attrNames = [...]string{
	"undefined", "float", "int", "string", "tensor", "graph", "floats", "ints", "strings",
	"tensors", "graphs", "sparse tensor", "sparse tensors", "type", "types",
}

// String names the type in error messages.
func (a AttrType) String() string {
	if a >= 0 && int(a) < len(attrNames) {
		return attrNames[a]
	}
	return fmt.Sprintf("attribute type %d", int32(a))
}
