# Writes tables and pictures as NumPy users save them. Run with NumPy 1.24 here.
import numpy as np

rng = np.random.default_rng(1)
x = rng.integers(-8, 9, (6, 3)) / 4
words = np.array(["rose", "aster", "rose", "iris", "aster", "rose"])
np.savez("table.npz", x_train=np.asfortranarray(x.astype(">f4")), y_train=words, x_test=x[:2], id_train=np.arange(6) + 100,
         columns=np.array(["length", "width", "height"]), extra=np.zeros(2))
np.savez("default.npz", x, np.eye(3)[[0, 2, 1, 1, 0, 2]])
np.save("x_pictures.npy", (np.arange(4 * 2 * 3 * 5) * 7 % 256).astype("u1").reshape(4, 2, 3, 5))
np.save("y_pictures.npy", np.array([3, 1, 3, 0]))
np.savez("floats.npz", images=(np.arange(2 * 3 * 5) / 10 - 1).reshape(2, 3, 5), targets=np.array([[0.5, 1.5], [2, 3]]))
