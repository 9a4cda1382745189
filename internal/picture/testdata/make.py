# Writes turned-K.jpg for each EXIF orientation K and turned-6.png, all of which
# show the same picture of 16×32 pixels once they are upright: quarters of grey
# level 250 and 20 above, 130 and 190 below. Run with Pillow 9.4 in this folder.
from PIL import Image, ImageOps

up = Image.new("L", (16, 32))
for y in range(32):
    for x in range(16):
        up.putpixel((x, y), [[250, 20], [130, 190]][y // 16][x // 8])
undo = {1: None, 2: Image.FLIP_LEFT_RIGHT, 3: Image.ROTATE_180, 4: Image.FLIP_TOP_BOTTOM,
        5: Image.TRANSPOSE, 6: Image.ROTATE_90, 7: Image.TRANSVERSE, 8: Image.ROTATE_270}
for k, turn in undo.items():
    img = up if turn is None else up.transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = k
    names = [f"turned-{k}.jpg"] + (["turned-6.png"] if k == 6 else [])
    for name in names:
        img.save(name, quality=95, exif=exif)
        with Image.open(name) as back:
            assert ImageOps.exif_transpose(back).size == (16, 32), name
            assert abs(ImageOps.exif_transpose(back).getpixel((3, 3)) - 250) < 4, name
            assert abs(ImageOps.exif_transpose(back).getpixel((3, 29)) - 130) < 4, name
