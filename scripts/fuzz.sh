#!/usr/bin/env bash
# Runs the fuzz targets under libFuzzer, each for a number of seconds, starting from real files.
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]        60 seconds, all targets
#
# An input may take 1 second and 256 MiB. FUSELOOP_FUZZ_TIMEOUT and FUSELOOP_FUZZ_MEMORY change
# these limits: an input takes longer on a busy machine, and needs more memory with a sanitizer.
# Without a sanitizer the script runs on stable Rust; with FUSELOOP_SANITIZER=address it sets
# RUSTC_BOOTSTRAP=1. The corpus is stored in fuzz/corpus, findings in fuzz/artifacts, and the output
# in fuzz/target/TARGET.log.
#
# Prints a table row for each target, and fails if a target has a finding.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-60}
case $seconds in '' | *[!0-9]*)
    echo "SECONDS is a number, not $seconds: scripts/fuzz.sh [SECONDS] [TARGET...]" >&2
    exit 2
    ;;
esac
targets=("${@:2}")
if [ ${#targets[@]} = 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi
for target in "${targets[@]}"; do
    [ -f "fuzz/fuzz_targets/$target.rs" ] || { echo "no target $target in fuzz/fuzz_targets" >&2; exit 2; }
done
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "needs cargo-fuzz: cargo install cargo-fuzz --version 0.13.2 --locked" >&2
    exit 2
fi

sanitizer=${FUSELOOP_SANITIZER:-none}
memory=256
if [ "$sanitizer" != none ]; then
    export RUSTC_BOOTSTRAP=1
    memory=2048
fi
memory=${FUSELOOP_FUZZ_MEMORY:-$memory}
shared=${FUSELOOP_SHARED:-../shared}

# seed TARGET: copies real files into the target's corpus.
seed() {
    local corpus=fuzz/corpus/$1 golden=tests/golden
    mkdir -p "$corpus"
    case $1 in
    jpeg_*) strangers "$corpus" .jpg ;;
    png) strangers "$corpus" .png ;;
    tiff) strangers "$corpus" .tif ;;
    webp) strangers "$corpus" .webp ;;
    audio) strangers "$corpus" .wav .flac .mp3 .ogg ;;
    still) strangers "$corpus" .bmp .gif .ppm .pgm .pbm .jxl .heic ;;
    tar) strangers "$corpus" .tar ;;
    tfrecord) strangers "$corpus" .tfrecord ;;
    coco) strangers "$corpus" .json ;;
    voc) strangers "$corpus" .xml ;;
    folder) strangers "$corpus" .csv .tsv .jsonl ;;
    esac
    case $1 in
    beton) copy "$corpus" "$golden"/beton/*.beton "$shared"/data/beton/*.beton ;;
    tar) copy "$corpus" "$golden"/webdataset/*.tar "$golden"/webdataset/*.gz ;;
    tfrecord) copy "$corpus" "$golden"/tfrecord/*.tfrecord ;;
    parquet) copy "$corpus" "$golden"/parquet/*.parquet "$golden"/parquet/hub/data/*.parquet ;;
    png) copy "$corpus" "$golden"/png/*.png ;;
    tiff) copy "$corpus" "$golden"/tiff/*.tif ;;
    webp) copy "$corpus" "$golden"/webp/*.webp ;;
    webp_frame)
        # A file of one chunk, without its 20 bytes of headers.
        for image in lossy lossy_even; do tail -c +21 "$golden/webp/$image.webp" >"$corpus/$image"; done
        ;;
    webp_lossless)
        for image in webp/tests/golden/lossless/*.webp; do tail -c +21 "$image" >"$corpus/$(basename "$image" .webp)"; done
        ;;
    audio) copy "$corpus" "$golden"/audio/*.wav "$golden"/audio/*.flac "$golden"/audio/*.mp3 "$golden"/audio/*.ogg ;;
    still) copy "$corpus" "$golden"/bmp/*.bmp "$golden"/gif/*.gif "$golden"/pnm/*.p?m "$golden"/jxl/*.jxl "$golden"/heic/*.heic ;;
    bit_planes) copy "$corpus" "$golden"/bit_planes/*.fplanes ;;
    jpeg_*) copy "$corpus" "$golden"/jpeg/*.jpg ;;
    video_avi) copy "$corpus" video/tests/golden/containers/*.avi "$shared"/data/video/*.avi ;;
    video_frames) copy "$corpus" video/tests/golden/frames/*.mp4 video/tests/golden/frames/annex_b.avi ;;
    video_matroska) copy "$corpus" video/tests/golden/containers/*.mkv video/tests/golden/containers/*.webm ;;
    video_mp4) copy "$corpus" video/tests/golden/containers/*.mp4 video/tests/golden/containers/*.mov ;;
    video_index)
        # The length of the file, the magic, version 1, and an index of one packet of 5 bytes with one frame.
        printf '\100\0\0\0\0\0\0\0FLVI\001\100\0MJPG\020\020\0\0\0\002\001\031\0\0\001\027\010\0\001\0\0' >"$corpus/one"
        ;;
    spec) copy "$corpus" examples/pipelines/*.toml ;;
    fixed_length) copy "$corpus" "$golden"/mnist_cifar/*/*-ubyte* "$golden"/mnist_cifar/*/*.bin ;;
    coco)
        printf '{"images":[{"id":1,"file_name":"1.jpg"}],"categories":[{"id":2,"name":"a"}],"annotations":[{"id":3,"image_id":1,"category_id":2,"bbox":[1,2,3,4],"segmentation":%s}]}' \
            '[[1,1,1,4,5,4,5,1]]' >"$corpus/polygon.json"
        ;;
    voc)
        printf '<annotation><object><name>a</name><truncated>0</truncated><bndbox>%s</bndbox></object></annotation>' \
            '<xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax>' >"$corpus/object.xml"
        ;;
    mds)
        { cat "$golden"/mds/plain/index.json; printf '\0'; cat "$golden"/mds/plain/shard.00000.mds; } >"$corpus/plain"
        ;;
    lerobot)
        { cat "$golden"/lerobot/meta/info.json; printf '\0'; cat "$golden"/lerobot/meta/episodes/chunk-000/file-000.parquet; } >"$corpus/golden"
        ;;
    clip_store)
        # Three rows of two videos: the number, and the seconds as eight bytes.
        printf '\001\0\0\0\0\0\0\0\0\001\0\0\0\0\0\0\360\077\002\0\0\0\0\0\0\0\0' >"$corpus/rows"
        ;;
    saved_videos)
        # A table of 33 bytes: one video, the name, the length, the time and 36 bytes of its index.
        printf '\041\0\0\0\001\0\0\0\0\0\0\0\001\0\0\0a\100\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0\044\0\0\0%036d' 0 >"$corpus/one"
        ;;
    joined_index)
        # A directory of 27 bytes with one shard of two samples, and 27 bytes of its pages.
        printf '\033\0\0\0\001\003jpg\001\001a\001\200\040\0\0\0\0\002\007\0\0\0\0\033\001\0\0\003\0' >"$corpus/one"
        printf '\027\0\0\0\0\0\0\0\001\0\0\0\011\0\0\0\006\0\001\001k\0\001\001\0\0\002' >>"$corpus/one"
        ;;
    yolo) printf '0 0.5 0.5 0.25 0.5\n1 0.1 0.1 0.5 0.1 0.5 0.5\n\0names: [a, b]\n' >"$corpus/labels.txt" ;;
    folder)
        printf 'path,label,x\na/1.jpg,dog,1\n"b,2.png",cat,2.5\n' >"$corpus/table.csv"
        printf '{"path": "1.jpg", "x": [1]}\n{"path": "2.jpg", "x": null}\n' >"$corpus/table.jsonl"
        printf '1.jpg\t0\n2.jpg\t1\n' >"$corpus/table.tsv"
        ;;
    transform)
        # A list of ops, the kind of image, its type and shape, one box, and pixels.
        for list in 000 001 002 003 004 005; do
            for kind in 000 001 002 003; do
                printf "\\$list\\$kind\\000\\377\\024\\000\\030\\000\\003\\000\\007\\000\\020\\000\\003\\001%s" \
                    'box and pixels: any bytes do, as these are repeated' >"$corpus/$list-$kind"
            done
        done
        ;;
    cursor)
        local ids='"dataset":"0000000000000001","order":"0000000000000002","plan":"0000000000000003"'
        for position in 0 4 10; do
            printf '{"fuseloop":1,%s,"seed":42,"epoch":0,"position":%s}' "$ids" "$position" \
                >"$corpus/cursor-$position.json"
        done
        ;;
    *)
        echo "$1 begins with an empty corpus: give it files in scripts/fuzz.sh" >&2
        ;;
    esac
}

# strangers FOLDER ENDING...: copies the files of tests/strangers whose names end so. Many of them have the same name.
strangers() {
    local folder=$1 ending file
    for ending in "${@:2}"; do
        while IFS= read -r -d '' file; do
            cp -f "$file" "$folder/$(echo "${file#tests/strangers/}" | tr / -)"
        done < <(git ls-files -z "tests/strangers/**$ending")
    done
}

# copy FOLDER FILE...: copies the files that exist.
copy() {
    local folder=$1 file
    for file in "${@:2}"; do
        if [ -f "$file" ]; then cp -f "$file" "$folder/"; fi
    done
    chmod -R u+w "$folder"
}

# number NAME LOG: prints the number after the last NAME in libFuzzer's output; - if there is none.
number() {
    { grep -ao "$1[ :]*[0-9]*" "$2" || true; } | tail -n 1 | { grep -o '[0-9]*$' || echo -; }
}

cargo fuzz build -s "$sanitizer" >&2
echo "| target | executions | edges | inputs that opened | peak MiB | findings |"
echo "|---|---:|---:|---|---:|---|"
failed=0
for target in "${targets[@]}"; do
    seed "$target"
    log=fuzz/target/$target.log
    outcome=none
    if ! cargo fuzz run "$target" -s "$sanitizer" -- -max_total_time="$seconds" \
        -timeout="${FUSELOOP_FUZZ_TIMEOUT:-1}" -rss_limit_mb="$memory" -print_final_stats=1 \
        >"$log" 2>&1; then
        failed=1
        outcome=$(grep -ao 'fuzz/artifacts/[^ ]*' "$log" | tail -n 1 || true)
        outcome="**${outcome:-see $log}**"
    fi
    opened=$(grep -ao '[0-9]* of [0-9]* inputs opened' "$log" | tail -n 1 | sed 's/ inputs opened//' || true)
    executions=$(number stat::number_of_executed_units "$log")
    echo "| $target | $executions | $(number 'cov' "$log") | ${opened:--} |" \
        "$(number stat::peak_rss_mb "$log") | $outcome |"
done
exit $failed
