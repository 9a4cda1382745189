# Writes arrays.npz, one array of each type that NumPy has for numbers and text,
# and objects.npy, which is pickled. Run with NumPy 1.24 in this folder.
import zipfile
import numpy as np

v = (np.arange(24).reshape(2, 3, 4) * 7) % 11  # 0 7 3 10 6 2 …
arrays = {}
for t in "b1 i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8".split():
    for order in "<>":
        x = (v % 2 if t == "b1" else v).astype(order + t)
        if t[0] == "i":
            x = -x
        if t[0] == "f":
            x = x / x.dtype.type(8) - x.dtype.type(0.5)
        x = x.astype(order + t)
        name = ("le_" if order == "<" else "be_") + t
        arrays[name] = x
        arrays["f_" + name] = np.asfortranarray(x)
arrays["words"] = np.array(["setosa", "", "Müller", "日本"])
arrays["words_be"] = arrays["words"].astype(">U6")
arrays["letters"] = np.array([b"a", b"bc", b""])
arrays["single"] = np.array(2.5)
arrays["none"] = np.zeros((0, 4))
arrays["largest"] = np.array([2**53, -(2**53), 2**62], dtype="i8")
arrays["unsigned"] = np.array([2**63, 2**64 - 2048], dtype="u8")
arrays["halves"] = np.array([65504, 2.0**-24, 2.0**-14, -0.0, np.inf, -np.inf, np.nan], dtype="f2")
np.savez_compressed("arrays.npz", **arrays)
with zipfile.ZipFile("arrays.npz", "a") as z:
    z.writestr("readme.txt", "no array")
np.save("objects.npy", np.array([{"a": 1}, None], dtype=object))
with open("version3.npy", "wb") as f:
    np.lib.format.write_array(f, np.arange(6, dtype="f8").reshape(2, 3), version=(3, 0))
