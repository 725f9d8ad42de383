//! The public API: types can be owned by other threads, and two arrays with labels are enough to train,
//! save, load and query a model.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use crosshash::backbone::Weights;
use crosshash::codes::Labels;
use crosshash::data::{Dense, Selection, SplitSpec};
use crosshash::train::TrainingSession;
use crosshash::{
    CodedModality, Config, Dataset, Encoder as _, Error, Features, Model, QueryEncoder,
    QueryInput, QueryKind, RunDir, RunReport, Split, Subset,
};

#[test]
fn public_types_are_owned_and_send() {
    fn owned<T: Send + 'static>() {}
    fn shareable<T: Send + Sync + 'static>() {}
    owned::<TrainingSession>();
    shareable::<Config>();
    shareable::<Dataset>();
    shareable::<Error>();
    shareable::<Model>();
    shareable::<QueryEncoder>();
    shareable::<RunDir>();
    shareable::<RunReport>();
    shareable::<Split>();
}

/// Features of 60 items with 3 labels.
fn array(phase: usize) -> Features {
    let value = |i: usize| {
        let (item, k) = (i / 6, i % 6);
        let shift = if k % 3 == item % 3 { 2.0 } else { 0.0 };
        shift + ((item * 37 + k * 101 + phase) as f32).sin() / 2.0
    };
    Features::Dense(Dense::from_floats(6, (0..360).map(value).collect()).unwrap())
}

#[test]
fn saved_run_encodes_queries() {
    let labels = Labels::from_indices(3, (0..60_u32).map(|item| [item % 3])).unwrap();
    let dataset =
        Dataset::from_arrays(&labels, [("image", array(0)), ("text", array(5))]).unwrap();
    let spec = SplitSpec { query: Some(Selection::Share(0.2)), ..SplitSpec::default() };
    let split = spec.draw(&dataset).unwrap();
    let config =
        Config::parse("bits = 16\nhidden = 8\nepochs = 3\nvalidation = 0.0", &[]).unwrap();
    let fitted = config.fit(&dataset.training(&split), &mut ()).unwrap().unwrap();

    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path().join("run")).unwrap();
    run.save_config(&config.to_toml().unwrap()).unwrap();
    run.save_model(&fitted.model).unwrap();
    for name in fitted.model.modalities() {
        let coded =
            CodedModality::encode(&fitted.model, &dataset, &split, name, &|_| ()).unwrap();
        run.save_codes(&coded).unwrap();
    }

    let run = RunDir::open(run.path()).unwrap();
    assert_eq!(run.config().unwrap().bits().get(), 16);
    assert_eq!(run.all_codes().unwrap().len(), 2);
    let encoder = QueryEncoder::open(&run, &Weights::default()).unwrap();
    let queries = dataset.queries(&split, "text").unwrap();
    let mut row = vec![0.0; 6];
    queries.read(&[0], &mut row).unwrap();
    let encoded = encoder.encode(Some("text"), QueryInput::Features(row.clone())).unwrap();
    let saved = run.codes(Subset::Query, "text").unwrap();
    assert_eq!(encoded.code.words(), saved.codes.code(0), "the code of the same item");
    assert_eq!(encoded.outputs.len(), 16);
    let near = encoder.nearest_centres(encoded.code.words(), Some(&encoded.outputs), 2);
    assert_eq!(near.len(), 2);
    assert!(near[0].distance <= near[1].distance);

    // One rule selects the modality: two accept features, none accepts texts.
    assert_eq!(encoder.kinds("text"), [QueryKind::Features]);
    let error = |input: QueryInput, modality: Option<&str>| {
        encoder.encode(modality, input).unwrap_err().to_string()
    };
    let message = error(QueryInput::Features(row.clone()), None);
    assert!(message.contains("name the modality of the query: image, text"), "{message}");
    let message = error(QueryInput::Text("a".into()), None);
    assert!(message.contains("no modality of the model accepts text queries"), "{message}");
    let message = error(QueryInput::Text("a".into()), Some("text"));
    assert!(message.contains("modality text does not accept text queries"), "{message}");
    let message = error(QueryInput::Features(row), Some("sound"));
    assert_eq!(message, "no modality named \"sound\"; there are: image, text");
    let message = error(QueryInput::Features(vec![1.0]), Some("text"));
    assert!(message.contains("the model expects dense rows with 6 features"), "{message}");
}
